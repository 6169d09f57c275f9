// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/podgang/podgang-scheduler/pkg/lab/process"
)

// tokenSeconds is how long the scheduler's token lasts; longer than any lab.
const tokenSeconds = 365 * 24 * 3600

// stockConfig configures kube-scheduler. Profiles are added by schedulerConfig.
const stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// podgangIdentity is the service account of the manifests, by a token as its pod would have.
func (l *Lab) podgangIdentity(ctx context.Context, inst *installation) (identity, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)}}
	token, err := l.client.CoreV1().ServiceAccounts(inst.namespace).CreateToken(ctx, inst.serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return identity{}, fmt.Errorf("cannot get a token for service account %s/%s: %w", inst.namespace, inst.serviceAccount, err)
	}
	return identity{
		user: "system:serviceaccount:" + inst.namespace + ":" + inst.serviceAccount,
		auth: clientcmdapi.AuthInfo{Token: token.Status.Token},
	}, nil
}

// serverFor is the URL by which the scheduler reaches the API server.
func (l *Lab) serverFor(ctx context.Context, s Scheduler) (string, error) {
	direct := &url.URL{Scheme: "https", Host: address(l.ports.apiServer)}
	if s.Server == nil {
		return direct.String(), nil
	}
	pair, err := l.creds.ca.Server("podgang-lab:proxy")
	if err != nil {
		return "", err
	}
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return "", fmt.Errorf("cannot use the proxy's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.creds.ca.CertPEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	server, err := s.Server(ctx, Upstream{URL: direct, Transport: transport, Certificate: cert})
	if err != nil {
		return "", fmt.Errorf("cannot put a server before %s: %w", s.name(), err)
	}
	if !strings.HasPrefix(server, "https://") {
		return "", fmt.Errorf("the server before %s is %q: it must be https, or the scheduler sends no token", s.name(), server)
	}
	return server, nil
}

// startScheduler configures and starts one scheduler.
func (l *Lab) startScheduler(ctx context.Context, s Scheduler, inst *installation) error {
	var id identity
	var err error
	if s.Binary == PodGangScheduler {
		id, err = l.podgangIdentity(ctx, inst)
	} else {
		// The user that the API server's own roles know.
		id, err = l.creds.clientIdentity("system:kube-scheduler")
	}
	if err != nil {
		return err
	}
	server, err := l.serverFor(ctx, s)
	if err != nil {
		return err
	}
	kubeconfig, err := l.writeKubeconfig(server, id, "schedulers", s.name(), "kubeconfig")
	if err != nil {
		return err
	}
	config, err := l.writeSchedulerConfig(s, inst, kubeconfig)
	if err != nil {
		return err
	}
	c := l.components[s.name()]
	c.spec = l.schedulerSpec(s, inst, c.port, kubeconfig, config)
	if s.Hold {
		return nil
	}
	return l.startComponent(ctx, s.name())
}

func (l *Lab) schedulerSpec(s Scheduler, inst *installation, port int, kubeconfig, config string) process.Spec {
	args := append(l.servingArgs(port, kubeconfig), "--config="+config)
	if s.Binary == PodGangScheduler {
		args = append(args, ownArgs(inst.args)...)
	}
	args = append(args, l.gateArgs()...)
	args = append(args, l.opts.ExtraArgs[s.name()]...)
	spec := process.Spec{Name: s.name(), Path: l.bins[s.executable()], Args: append(args, s.Args...), LogFile: l.logFile(s.name())}
	if s.executable() == MultiCall {
		spec.Args = append([]string{KubeScheduler}, spec.Args...)
	}
	return spec
}

// placedByLab are flags of the Deployment that say where the container finds files and
// serves; the lab has its own places.
var placedByLab = []string{
	"--config", "--kubeconfig", "--master", "--bind-address", "--secure-port", "--cert-dir", "--tls-cert-file",
	"--tls-private-key-file", "--authentication-kubeconfig", "--authorization-kubeconfig", "--leader-elect",
}

// ownArgs is the Deployment's arguments without those that the lab sets itself.
func ownArgs(args []string) []string {
	var keep []string
	for i := 0; i < len(args); i++ {
		flag, _, joined := strings.Cut(args[i], "=")
		if !slices.Contains(placedByLab, flag) {
			keep = append(keep, args[i])
			continue
		}
		if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++ // the flag's value
		}
	}
	return keep
}

// writeSchedulerConfig writes the scheduler's configuration, changed where the lab
// must: the kubeconfig, and leader election, which is off unless asked for.
func (l *Lab) writeSchedulerConfig(s Scheduler, inst *installation, kubeconfig string) (string, error) {
	data := s.Config
	switch {
	case data != nil:
	case s.Binary == PodGangScheduler:
		data = inst.config
	default:
		data = []byte(stockConfig)
	}
	config := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(data, &config.Object); err != nil {
		return "", fmt.Errorf("the configuration of %s is not YAML: %w", s.name(), err)
	}
	if config.GetKind() != "KubeSchedulerConfiguration" {
		return "", fmt.Errorf("the configuration of %s is a %q, not a KubeSchedulerConfiguration", s.name(), config.GetKind())
	}
	if err := unstructured.SetNestedField(config.Object, kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return "", fmt.Errorf("the configuration of %s: %w", s.name(), err)
	}
	if !s.LeaderElect {
		if err := unstructured.SetNestedField(config.Object, false, "leaderElection", "leaderElect"); err != nil {
			return "", fmt.Errorf("the configuration of %s: %w", s.name(), err)
		}
	}
	if s.Binary == KubeScheduler && s.Config == nil {
		l.addStockProfiles(config, inst)
	}
	if s.EditConfig != nil {
		if err := s.EditConfig(config); err != nil {
			return "", fmt.Errorf("cannot change the configuration of %s: %w", s.name(), err)
		}
	}
	out, err := yaml.Marshal(config.Object)
	if err != nil {
		return "", fmt.Errorf("cannot encode the configuration of %s: %w", s.name(), err)
	}
	return l.dir.write(out, "schedulers", s.name(), "config.yaml")
}

// addStockProfiles lets kube-scheduler answer to the project's scheduler names too when
// the project's scheduler does not run, so that the same pods can be used to compare.
func (l *Lab) addStockProfiles(config *unstructured.Unstructured, inst *installation) {
	names := []string{"default-scheduler"}
	if !slices.ContainsFunc(l.opts.Schedulers, func(s Scheduler) bool { return s.Binary == PodGangScheduler }) {
		for _, name := range profileNames(inst.config) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var profiles []any
	for _, name := range names {
		profiles = append(profiles, map[string]any{"schedulerName": name})
	}
	config.Object["profiles"] = profiles
}

// profileNames are the scheduler names that a KubeSchedulerConfiguration answers to.
func profileNames(config []byte) []string {
	var c struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return nil // reported where the scheduler that uses it is configured
	}
	var names []string
	for _, p := range c.Profiles {
		if p.SchedulerName != "" {
			names = append(names, p.SchedulerName)
		}
	}
	return names
}
