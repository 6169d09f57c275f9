// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/exec"
	"runtime"
	"sync"
)

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// spawner starts children from one operating system thread that lives as long as
// this program. The kernel sends the parent death signal when the *thread* that
// forked ends, not the process (prctl(2), PR_SET_PDEATHSIG), and the Go runtime ends
// threads at will unless a goroutine is locked to them.
var spawner = sync.OnceValue(func() chan<- spawnRequest {
	requests := make(chan spawnRequest)
	go serveSpawns(requests)
	return requests
})

func serveSpawns(requests <-chan spawnRequest) {
	runtime.LockOSThread() // never unlocked
	for r := range requests {
		r.result <- r.cmd.Start()
	}
}

func spawn(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	spawner() <- spawnRequest{cmd, result}
	return <-result
}
