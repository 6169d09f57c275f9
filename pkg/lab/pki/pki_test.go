// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
)

func parse(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	if block == nil {
		t.Fatal("no PEM block")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificatesAreTrustedForTheirUseOnly(t *testing.T) {
	ca, err := NewCA("lab")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewCA("lab")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.Server("server", "kubernetes.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.Client("somebody", "group-a", "group-b")
	if err != nil {
		t.Fatal(err)
	}
	pool := func(c *CA) *x509.CertPool {
		p := x509.NewCertPool()
		p.AppendCertsFromPEM(c.CertPEM)
		return p
	}
	for _, tc := range []struct {
		name  string
		pair  Pair
		roots *x509.CertPool
		host  string
		use   x509.ExtKeyUsage
		valid bool
	}{
		{"server by address", server, pool(ca), "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"server by name", server, pool(ca), "kubernetes.default.svc", x509.ExtKeyUsageServerAuth, true},
		{"server by another name", server, pool(ca), "example.com", x509.ExtKeyUsageServerAuth, false},
		{"server, of another authority", server, pool(other), "127.0.0.1", x509.ExtKeyUsageServerAuth, false},
		{"etcd peer as client", server, pool(ca), "", x509.ExtKeyUsageClientAuth, true},
		{"client", client, pool(ca), "", x509.ExtKeyUsageClientAuth, true},
		{"client as server", client, pool(ca), "", x509.ExtKeyUsageServerAuth, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(t, tc.pair.CertPEM).Verify(x509.VerifyOptions{Roots: tc.roots, DNSName: tc.host, KeyUsages: []x509.ExtKeyUsage{tc.use}})
			if (err == nil) != tc.valid {
				t.Errorf("valid %t, want %t: %v", err == nil, tc.valid, err)
			}
			if _, err := tls.X509KeyPair(tc.pair.CertPEM, tc.pair.KeyPEM); err != nil {
				t.Errorf("key and certificate do not match: %v", err)
			}
		})
	}
	subject := parse(t, client.CertPEM).Subject
	if subject.CommonName != "somebody" || !slices.Equal(subject.Organization, []string{"group-a", "group-b"}) {
		t.Errorf("subject %v, want user and groups", subject)
	}
}

func TestSigningKeysDiffer(t *testing.T) {
	a, err := SigningKey()
	if err != nil {
		t.Fatal(err)
	}
	b, err := SigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if string(a) == string(b) {
		t.Error("the same key twice")
	}
	block, _ := pem.Decode(a)
	if block == nil {
		t.Fatal("no PEM block")
	}
	if _, err := x509.ParseECPrivateKey(block.Bytes); err != nil {
		t.Errorf("not a private key: %v", err)
	}
}
