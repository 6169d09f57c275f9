// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// socketFile is the supervisor's socket in the state directory.
const socketFile = "supervisor.sock"

// Status is what a supervisor tells about its lab.
type Status struct {
	PID        int         `json:"pid"`
	Started    time.Time   `json:"started"`
	Shape      string      `json:"shape,omitempty"`
	Server     string      `json:"server"`
	Kubeconfig string      `json:"kubeconfig"`
	Components []Component `json:"components"`
}

// Component is the state of one component.
type Component struct {
	Name     string    `json:"name"`
	Running  bool      `json:"running"`
	PID      int       `json:"pid"`
	Port     int       `json:"port"`
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts"`
	// Exit says how the component ended, when it does not run.
	Exit string `json:"exit,omitempty"`
}

// Event is one line of the stream by which a starting supervisor reports: a step, or at
// the end Ready or Failed.
type Event struct {
	Name   string        `json:"name,omitempty"`
	Note   string        `json:"note,omitempty"`
	Done   bool          `json:"done,omitempty"`
	Took   time.Duration `json:"took,omitempty"`
	Error  string        `json:"error,omitempty"`
	Ready  bool          `json:"ready,omitempty"`
	Failed string        `json:"failed,omitempty"`
}

// withSocket calls do with an address for the socket that fits the limit of 107 bytes
// for socket paths, however long the path of the directory is.
func withSocket(dir string, do func(*net.UnixAddr) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), socketFile)
	return do(&net.UnixAddr{Name: path, Net: "unix"})
}

func statusOf(l *lab.Lab, started time.Time, shape string) Status {
	s := Status{PID: os.Getpid(), Started: started, Shape: shape, Server: l.RESTConfig().Host, Kubeconfig: l.Kubeconfig()}
	for _, c := range l.Components() {
		cs := Component{Name: c.Name(), Running: c.Running(), PID: c.PID(), Port: c.Port(), Since: c.Since(), Restarts: c.Restarts()}
		if err := c.Err(); err != nil {
			cs.Exit = err.Error()
		}
		s.Components = append(s.Components, cs)
	}
	return s
}
