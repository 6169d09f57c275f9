// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

var (
	schedulerBinary = flag.String("scheduler", lab.PodGangScheduler, "what schedules: "+lab.PodGangScheduler+" or "+lab.KubeScheduler)
	patience        = flag.Duration("patience", 30*time.Second, "how long a test waits for something that should happen at once")
	keepState       = flag.Bool("keep", false, "keep the state of the lab, logs included, when all tests pass too")
)

func TestMain(m *testing.M) {
	flag.Parse()
	for _, name := range []string{lab.MultiCall, lab.Kwok, lab.PodGangScheduler} {
		if _, err := lab.FindBinary("", name); err != nil {
			fmt.Fprintf(os.Stderr, "these tests run what is built: %v\n", err)
			os.Exit(1)
		}
	}
	code := m.Run()
	theLab.stop()
	switch {
	case theLab.dir == "":
	case code != 0 || *keepState:
		fmt.Fprintf(os.Stderr, "logs of the lab: %s/logs\n", theLab.dir)
	default:
		if err := os.RemoveAll(theLab.dir); err != nil {
			fmt.Fprintf(os.Stderr, "cannot remove the state of the lab: %v\n", err)
		}
	}
	os.Exit(code)
}
