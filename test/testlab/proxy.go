// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// Proxy stands between a scheduler and the API server. Set its fields before Serve.
type Proxy struct {
	// Handler gets every request, those that write with a body that has been read. It
	// calls Pass for what the API server is to get.
	Handler http.Handler
	// ConnState, if not nil, is told about the scheduler's connections, as
	// http.Server's is.
	ConnState func(net.Conn, http.ConnState)

	server    *http.Server
	upstream  *httputil.ReverseProxy
	transport *http.Transport
}

// Serve starts the proxy on a free port of 127.0.0.1 and returns its URL; it is a
// lab.Scheduler's Server.
func (p *Proxy) Serve(_ context.Context, upstream lab.Upstream) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	quiet := log.New(io.Discard, "", 0) // broken connections are its business
	p.transport = upstream.Transport
	p.upstream = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream.URL) },
		FlushInterval: -1, // watches are streams
		Transport:     upstream.Transport,
		// What the client of a server that is gone sees: no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     quiet,
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: time.Minute, ErrorLog: quiet, ConnState: p.ConnState,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{upstream.Certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // ends with Close
	return "https://" + listener.Addr().String(), nil
}

// handle reads the body of a request before the handler gets it: who looks at it under a
// lock must not wait for the client there, and the server notices that a client is gone
// only after that.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	p.Handler.ServeHTTP(w, r)
}

// Pass has the API server answer the request. When there is no answer, the client gets
// none either.
func (p *Proxy) Pass(w http.ResponseWriter, r *http.Request) { p.upstream.ServeHTTP(w, r) }

// Close ends the proxy and its connections, also before Serve.
func (p *Proxy) Close() {
	if p.server != nil {
		_ = p.server.Close() // its connections are of no use any more
		p.transport.CloseIdleConnections()
	}
}

// IsWatch tells whether the request is for a watch.
func IsWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// reasons are those that the API server gives with a status code. See
// k8s.io/apimachinery/pkg/api/errors.
var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

// Refuse answers in the API server's place, with a failure of this status code.
func Refuse(w http.ResponseWriter, r *http.Request, code int) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1") // seconds; without it client-go does not try again
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a client that is gone needs no answer
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code],
		Message: fmt.Sprintf("refused by the test: %s %s", r.Method, r.URL.Path),
	})
}
