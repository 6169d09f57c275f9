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
	"time"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// stopTimeout bounds the end of a lab; components that do not end in time are killed.
const stopTimeout = 20 * time.Second

// Run starts a lab and keeps it until ctx ends, then stops it. It writes Events to
// events until the lab is ready or has failed to start; when nobody reads them any
// more, the start is given up.
func Run(ctx context.Context, opts lab.Options, events io.WriteCloser) error {
	startCtx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	stream := json.NewEncoder(events)
	send := func(e Event) {
		if err := stream.Encode(e); err != nil {
			giveUp()
		}
	}
	opts.OnStep = func(s lab.Step) {
		e := Event{Name: s.Name, Note: s.Note, Done: s.Done, Took: s.Took}
		if s.Err != nil {
			e.Error = s.Err.Error()
		}
		send(e)
	}
	l, err := lab.Start(startCtx, opts)
	if err != nil {
		send(Event{Failed: err.Error()})
		return errors.Join(err, events.Close())
	}
	defer stop(l)
	listener, err := listen(l.Dir())
	if err != nil {
		send(Event{Failed: err.Error()})
		return errors.Join(err, events.Close())
	}
	shape := ""
	if opts.Shape != nil {
		shape = opts.Shape.Name
	}
	server := &http.Server{Handler: handler(l, shape), ReadHeaderTimeout: 5 * time.Second}
	send(Event{Ready: true})
	_ = events.Close() // the reader, if there is one still, has what it waits for
	return serve(startCtx, server, listener)
}

// serve answers requests until ctx ends.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	closeOnEnd := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns then
	defer closeOnEnd()
	err := server.Serve(listener)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the supervisor's socket failed: %w", err)
}

func stop(l *lab.Lab) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = l.Stop(ctx) // cannot fail: it kills what does not end
}

// listen opens the socket, which only the owner of the state directory can reach.
func listen(dir string) (listener net.Listener, err error) {
	if err := os.Remove(filepath.Join(dir, socketFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace the supervisor's socket: %w", err)
	}
	err = withSocket(dir, func(a *net.UnixAddr) error {
		l, err := net.ListenUnix("unix", a)
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // its path is valid only here
		listener = l
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open the supervisor's socket: %w", err)
	}
	return listener, nil
}

func handler(l *lab.Lab, shape string) http.Handler {
	started := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(statusOf(l, started, shape)) // a reader that is gone needs no answer
	})
	component := func(do func(context.Context, *lab.Component) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			c := l.Component(r.PathValue("name"))
			if c == nil {
				http.Error(w, fmt.Sprintf("this lab has no component %q", r.PathValue("name")), http.StatusNotFound)
				return
			}
			if err := do(r.Context(), c); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux.Handle("POST /components/{name}/kill", component(func(_ context.Context, c *lab.Component) error {
		c.Kill()
		return nil
	}))
	mux.Handle("POST /components/{name}/restart", component(func(ctx context.Context, c *lab.Component) error {
		c.Stop(ctx)
		return c.Start(ctx)
	}))
	return mux
}
