// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/test/testlab"
)

var (
	schedulerBinary = flag.String("scheduler", lab.PodGangScheduler, "what schedules: "+lab.PodGangScheduler+" or "+lab.KubeScheduler)
	patience        = flag.Duration("patience", 30*time.Second, "how long a test waits for something that should happen at once")
	keepState       = flag.Bool("keep", false, "keep the state of the labs, logs included, when all tests pass too")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := testlab.RequireBuilt(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	for _, l := range labs {
		if err := l.end(code != 0 || *keepState); err != nil {
			fmt.Fprintf(os.Stderr, "cannot end the lab %q: %v\n", l.name, err)
		}
	}
	os.Exit(code)
}
