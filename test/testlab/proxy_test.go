// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgang/podgang-scheduler/pkg/lab"
)

// front starts a proxy before a server, and returns a function that posts a body through
// it and returns the status, 0 for no answer, and what the answer says.
func front(t *testing.T, p *Proxy, server *httptest.Server) func(body string) (int, string) {
	t.Helper()
	t.Cleanup(p.Close)
	upstream, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := server.Client().Transport.(*http.Transport).Clone()
	address, err := p.Serve(t.Context(), lab.Upstream{URL: upstream, Transport: transport, Certificate: server.TLS.Certificates[0]})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs}}}
	t.Cleanup(client.CloseIdleConnections)
	return func(body string) (int, string) {
		resp, err := client.Post(address+"/some/path", "text/plain", strings.NewReader(body))
		if err != nil {
			return 0, ""
		}
		defer func() { _ = resp.Body.Close() }() // it has been read
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
}

// The handler sees the body, and what it passes on arrives in full; from a server that is
// gone there is no answer.
func TestProxyPassesRequestsOn(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing is missed in the answer
		_, _ = io.WriteString(w, r.URL.Path+" got "+string(body))
	}))
	defer server.Close()
	var p Proxy
	p.Handler = http.HandlerFunc(p.Pass)
	send := front(t, &p, server)
	if code, text := send("this"); code != http.StatusOK || text != "/some/path got this" {
		t.Errorf("got %d %q", code, text)
	}
	server.Close()
	if code, text := send("this"); code != 0 {
		t.Errorf("the server is gone, and the answer is %d %q", code, text)
	}
}

// A refusal is what client-go takes for the error of that name, and the server gets
// nothing.
func TestRefuse(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server got a request") }))
	defer server.Close()
	for code, is := range map[int]func(error) bool{
		http.StatusForbidden:           apierrors.IsForbidden,
		http.StatusConflict:            apierrors.IsConflict,
		http.StatusGone:                apierrors.IsResourceExpired,
		http.StatusTooManyRequests:     apierrors.IsTooManyRequests,
		http.StatusInternalServerError: apierrors.IsInternalError,
		http.StatusServiceUnavailable:  apierrors.IsServiceUnavailable,
		http.StatusGatewayTimeout:      apierrors.IsTimeout,
	} {
		send := front(t, &Proxy{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Refuse(w, r, code) })}, server)
		got, text := send("this")
		var status metav1.Status
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			t.Fatal(err)
		}
		if got != code || !is(&apierrors.StatusError{ErrStatus: status}) || !strings.Contains(status.Message, "POST /some/path") {
			t.Errorf("%d is answered with %d and %+v", code, got, status)
		}
	}
}
