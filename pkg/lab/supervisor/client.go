// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// ErrNotRunning says that no lab runs in a directory.
var ErrNotRunning = errors.New("no lab is running")

// Client talks to the supervisor of the lab in one directory.
type Client struct {
	dir  string
	pid  int
	http *http.Client
}

// Connect finds the supervisor of the lab in dir. The error is ErrNotRunning, wrapped,
// when there is none.
func Connect(dir string) (*Client, error) {
	pid, err := lab.Owner(dir)
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, notRunning(dir)
	}
	dial := func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		err = withSocket(dir, func(a *net.UnixAddr) error {
			conn, err = (&net.Dialer{}).DialContext(ctx, a.Net, a.Name)
			return err
		})
		return conn, err
	}
	return &Client{dir: dir, pid: pid, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}, nil
}

func notRunning(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "logs")); err == nil {
		return fmt.Errorf("%w in %s; one ended there without \"down\", its logs are in %s", ErrNotRunning, dir, filepath.Join(dir, "logs"))
	}
	return fmt.Errorf("%w in %s; start one with \"podgang-lab up\"", ErrNotRunning, dir)
}

// PID is the supervisor's process id.
func (c *Client) PID() int { return c.pid }

// Status asks for the state of the lab.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	body, err := c.call(ctx, http.MethodGet, "status")
	if err != nil {
		return nil, err
	}
	var s Status
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("the supervisor answers something else than a status: %w", err)
	}
	return &s, nil
}

// Kill ends a component with SIGKILL.
func (c *Client) Kill(ctx context.Context, component string) error {
	_, err := c.call(ctx, http.MethodPost, "components/"+component+"/kill")
	return err
}

// Restart stops a component, if it runs, and starts it; it returns when it is ready.
func (c *Client) Restart(ctx context.Context, component string) error {
	_, err := c.call(ctx, http.MethodPost, "components/"+component+"/restart")
	return err
}

func (c *Client) call(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor/"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the lab in %s is still starting, or is not in the background (process %d)", c.dir, c.pid)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach the supervisor of the lab in %s (process %d): %w", c.dir, c.pid, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read the supervisor's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Stop ends the lab and its supervisor, and waits until they are gone. A supervisor that
// does not end within stopTimeout is killed; its components die with it.
func (c *Client) Stop(ctx context.Context) error {
	if err := syscall.Kill(c.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("cannot stop the lab's supervisor (process %d): %w", c.pid, err)
	}
	deadline := time.After(stopTimeout + 5*time.Second)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		pid, err := lab.Owner(c.dir)
		if err != nil {
			return err
		}
		if pid != c.pid {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			deadline = nil
			// The lock is still held, so the process is still the one that took it.
			if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("cannot kill the lab's supervisor (process %d): %w", c.pid, err)
			}
		}
	}
}
