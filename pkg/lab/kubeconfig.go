// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podgang/podgang-scheduler/pkg/lab/pki"
)

// identity is how somebody authenticates to the API server.
type identity struct {
	user string
	auth clientcmdapi.AuthInfo
}

// clientIdentity makes a client certificate for the user.
func (c *credentials) clientIdentity(user string, groups ...string) (identity, error) {
	pair, err := c.ca.Client(user, groups...)
	if err != nil {
		return identity{}, err
	}
	return certIdentity(user, pair), nil
}

func certIdentity(user string, pair pki.Pair) identity {
	return identity{user: user, auth: clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}}
}

// writeKubeconfig writes a kubeconfig for the identity and returns its path.
func (l *Lab) writeKubeconfig(server string, id identity, elem ...string) (string, error) {
	const name = "podgang-lab"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: l.creds.ca.CertPEM}
	config.AuthInfos[id.user] = &id.auth
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: id.user}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("cannot encode the kubeconfig of %s: %w", id.user, err)
	}
	return l.dir.write(data, elem...)
}
