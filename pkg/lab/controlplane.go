// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/podgang/podgang-scheduler/pkg/lab/pki"
	"github.com/podgang/podgang-scheduler/pkg/lab/process"
)

// kwokConfig is kwok's configuration and stages.
//
//go:embed kwok.yaml
var kwokConfig []byte

// kwokRelaunches is how often kwok is started again when it ends at once. Version 0.8.0
// registers types of CEL in a map from two goroutines while it starts, and now and then
// the runtime ends it for that ("concurrent map writes").
const kwokRelaunches = 2

// FakeNodeAnnotation marks the nodes whose kubelet kwok plays; its value is "fake".
const FakeNodeAnnotation = "kwok.x-k8s.io/node"

// controllers of kube-controller-manager that a gang scheduler's world needs
// (names: cmd/kube-controller-manager/names in k8s.io/kubernetes).
var controllers = []string{
	"disruption-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"pod-garbage-collector-controller",
	"resourceclaim-controller",
	"serviceaccount-controller",
}

// adminUser is who the lab, and its user, are to the API server.
const adminUser = "podgang-lab:admin"

// credentials are the files by which the components know each other.
type credentials struct {
	ca                  *pki.CA
	caFile              string
	certFile, keyFile   string // serves every component
	admin               pki.Pair
	adminCert, adminKey string
	signingKeyFile      string // of service account tokens
}

func writeCredentials(dir *stateDir) (*credentials, error) {
	ca, err := pki.NewCA("podgang-lab")
	if err != nil {
		return nil, err
	}
	server, err := ca.Server("podgang-lab", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return nil, err
	}
	admin, err := ca.Client(adminUser, "system:masters")
	if err != nil {
		return nil, err
	}
	signing, err := pki.SigningKey()
	if err != nil {
		return nil, err
	}
	c := &credentials{ca: ca, admin: admin}
	for _, f := range []struct {
		path *string
		data []byte
		name string
	}{
		{&c.caFile, ca.CertPEM, "ca.crt"},
		{&c.certFile, server.CertPEM, "server.crt"},
		{&c.keyFile, server.KeyPEM, "server.key"},
		{&c.adminCert, admin.CertPEM, "admin.crt"},
		{&c.adminKey, admin.KeyPEM, "admin.key"},
		{&c.signingKeyFile, signing, "service-account.key"},
	} {
		if *f.path, err = dir.write(f.data, "pki", f.name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// adminConfig is cluster-admin access to the API server.
func (l *Lab) adminConfig() *rest.Config {
	return &rest.Config{
		Host:            "https://" + address(l.ports.apiServer),
		UserAgent:       "podgang-lab",
		QPS:             -1, // the lab's load is the caller's to limit
		TLSClientConfig: rest.TLSClientConfig{CAData: l.creds.ca.CertPEM, CertData: l.creds.admin.CertPEM, KeyData: l.creds.admin.KeyPEM},
	}
}

func (l *Lab) etcdSpec() process.Spec {
	client, peer := "https://"+address(l.ports.etcd), "https://"+address(l.ports.etcdPeer)
	return l.multiCallSpec(Etcd,
		"--name=lab",
		"--data-dir="+l.dir.file("etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=lab="+peer,
		"--cert-file="+l.creds.certFile, "--key-file="+l.creds.keyFile,
		"--trusted-ca-file="+l.creds.caFile, "--client-cert-auth",
		"--peer-cert-file="+l.creds.certFile, "--peer-key-file="+l.creds.keyFile,
		"--peer-trusted-ca-file="+l.creds.caFile, "--peer-client-cert-auth",
		// A lone member need not wait a second for others to stand for election.
		"--heartbeat-interval=10", "--election-timeout=100",
		"--unsafe-no-fsync", // survives the end of any process, not that of the machine
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	)
}

func (l *Lab) apiServerSpec() process.Spec {
	args := []string{
		"--etcd-servers=https://" + address(l.ports.etcd),
		"--etcd-cafile=" + l.creds.caFile, "--etcd-certfile=" + l.creds.adminCert, "--etcd-keyfile=" + l.creds.adminKey,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.ports.apiServer),
		"--tls-cert-file=" + l.creds.certFile, "--tls-private-key-file=" + l.creds.keyFile,
		"--client-ca-file=" + l.creds.caFile,
		// The components read these to know who may ask them for metrics.
		"--requestheader-client-ca-file=" + l.creds.caFile,
		"--requestheader-allowed-names=podgang-lab:front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + l.creds.signingKeyFile,
		"--service-account-key-file=" + l.creds.signingKeyFile,
		"--service-cluster-ip-range=10.96.0.0/16",
		// The server is only on the loopback interface, which no Service may point to.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--allow-privileged=true",
		// Nodes are created ready; the node life cycle controller, which would take the
		// not-ready taint off again, does not run.
		"--disable-admission-plugins=TaintNodesByCondition",
	}
	return l.multiCallSpec(APIServer, append(args, l.gateArgs()...)...)
}

func (l *Lab) controllerManagerSpec(kubeconfig string) process.Spec {
	args := append(l.servingArgs(l.ports.controllerManager, kubeconfig),
		"--kubeconfig="+kubeconfig,
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--root-ca-file="+l.creds.caFile,
		"--service-account-private-key-file="+l.creds.signingKeyFile,
		"--concurrent-resourceclaim-syncs=50",
		"--kube-api-qps=500", "--kube-api-burst=1000",
	)
	return l.multiCallSpec(ControllerManager, append(args, l.gateArgs()...)...)
}

func (l *Lab) kwokSpec(kubeconfig, config string) process.Spec {
	return process.Spec{
		Name: Kwok,
		Path: l.bins[Kwok],
		Args: append([]string{
			"--config=" + config,
			"--kubeconfig=" + kubeconfig,
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=" + FakeNodeAnnotation + "=fake",
			"--server-address=" + address(l.ports.kwok),
		}, l.opts.ExtraArgs[Kwok]...),
		// kwok reads a configuration in its work directory, and variables of its own.
		Env:     append(withoutPrefix(os.Environ(), "KWOK_"), "KWOK_WORKDIR="+l.dir.file("kwok")),
		LogFile: l.logFile(Kwok),
	}
}

// servingArgs make a Kubernetes component serve health and metrics on the port, for
// the users whom the API server allows.
func (l *Lab) servingArgs(port int, kubeconfig string) []string {
	return []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + l.creds.certFile, "--tls-private-key-file=" + l.creds.keyFile,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}
}

func (l *Lab) multiCallSpec(name string, args ...string) process.Spec {
	return process.Spec{
		Name:    name,
		Path:    l.bins[MultiCall],
		Args:    append(append([]string{name}, args...), l.opts.ExtraArgs[name]...),
		LogFile: l.logFile(name),
	}
}

func (l *Lab) logFile(name string) string { return l.dir.file("logs", name+".log") }

// gateArgs sets the feature gates of the options, if any.
func (l *Lab) gateArgs() []string {
	if len(l.opts.FeatureGates) == 0 {
		return nil
	}
	var gates []string
	for _, name := range slices.Sorted(maps.Keys(l.opts.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", name, l.opts.FeatureGates[name]))
	}
	return []string{"--feature-gates=" + strings.Join(gates, ",")}
}

func withoutPrefix(env []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, prefix) })
}

// probe returns a readiness test: the URL answers 200.
func (l *Lab) probe(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := l.probes.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, resp.Status, firstFailure(string(body)))
		}
		return nil
	}
}

// firstFailure picks the failed check from the body of /readyz, which lists all.
func firstFailure(body string) string {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "[-]") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(body)
}

// newProbeClient makes the client for readiness tests: the admin, without kept
// connections, which would hold up the end of a component.
func newProbeClient(creds *credentials) (*http.Client, error) {
	cert, err := tls.X509KeyPair(creds.admin.CertPEM, creds.admin.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("cannot use the admin certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(creds.ca.CertPEM)
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		},
	}, nil
}
