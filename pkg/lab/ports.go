// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
)

// Ports are taken from below the range that Linux uses for outgoing connections
// (net.ipv4.ip_local_port_range, 32768 and up), so that a component that is down for a
// while does not lose its port to somebody's connection.
const (
	firstPort = 12000
	lastPort  = 32000
)

// portSet holds free ports of 127.0.0.1 until the components are about to listen on
// them, so that two labs that start together do not choose the same.
type portSet struct {
	// mu guards held: components start in parallel.
	mu   sync.Mutex
	held map[int]net.Listener
}

// take finds a free port and holds it.
func (s *portSet) take() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last error
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, ours := s.held[port]; ours {
			continue
		}
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			last = err
			continue
		}
		if s.held == nil {
			s.held = map[int]net.Listener{}
		}
		s.held[port] = l
		return port, nil
	}
	return 0, fmt.Errorf("cannot find a free port on 127.0.0.1 between %d and %d: %w", firstPort, lastPort, last)
}

// release lets go of ports, for their component to listen on.
func (s *portSet) release(ports ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, port := range ports {
		if l := s.held[port]; l != nil {
			_ = l.Close() // nothing was accepted
			delete(s.held, port)
		}
	}
}

func (s *portSet) releaseAll() {
	s.mu.Lock()
	ports := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	s.release(ports...)
}

func address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
