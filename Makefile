# make help lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := $(CURDIR)/bin
# Tests run components out of here; so does the lab.
export PODGANG_BIN_DIR := $(BIN)

# The Kubernetes version that the binaries say they are: that of the libraries in
# them. Without it they call themselves v0.0.0-master, and feature gates of an
# emulated older version come out wrong.
KUBE_VERSION := $(shell sed -n 's,^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\)$$,\1,p' go.mod)
KUBE_MAJOR := $(word 1,$(subst ., ,$(KUBE_VERSION:v%=%)))
KUBE_MINOR := $(word 2,$(subst ., ,$(KUBE_VERSION:v%=%)))
VERSION_VARS := gitVersion=$(KUBE_VERSION) gitMajor=$(KUBE_MAJOR) gitMinor=$(KUBE_MINOR) gitCommit= gitTreeState=clean
# Constant values only (the build date stays at its default, 1970), and no stamp of
# the repository: the same source gives the same binary, and nothing is linked anew
# after a commit.
LDFLAGS := -s -w $(foreach v,$(VERSION_VARS),-X k8s.io/component-base/version.$(v) -X k8s.io/client-go/pkg/version.$(v))
BUILD_FLAGS := -buildvcs=false -ldflags "$(LDFLAGS)"

COSCHEDULING_VERSION := $(shell sed -n 's,^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\)$$,\1,p' hack/coscheduling/go.mod)
COSCHEDULING_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(COSCHEDULING_VERSION) -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(COSCHEDULING_VERSION)))

# cmd/podgang-lab is left to the end-to-end tests: it links all of Kubernetes, and
# would have it compiled a second time for the race detector.
UNIT_PACKAGES := ./pkg/... ./plugins/... ./test/perf/... ./manifests/... ./examples/... ./cmd/podgang-scheduler/...

CONTROLLER_GEN := $(BIN)/tools/controller-gen
CONVERSION_GEN := $(BIN)/tools/conversion-gen
DEFAULTER_GEN := $(BIN)/tools/defaulter-gen
GOLANGCI_LINT := $(BIN)/tools/golangci-lint

##@ Use

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The Go build cache knows what is out of date, so the commands are always built.
.PHONY: build
build: ## Build the commands into bin (a first time takes minutes).
	@echo "building the commands and kwok with Kubernetes $(KUBE_VERSION) into bin"
	$(GO) build $(BUILD_FLAGS) -o $(BIN)/ ./cmd/...
	$(GO) -C hack/kwok build -buildvcs=false -ldflags "-s -w" -o $(BIN)/kwok sigs.k8s.io/kwok/cmd/kwok

.PHONY: scheduler
scheduler: ## Build bin/podgang-scheduler alone, as an image needs it.
	$(GO) build $(BUILD_FLAGS) -o $(BIN)/ ./cmd/podgang-scheduler

.PHONY: demo
demo: build ## Show a gang that waits whole and starts whole, on a control plane of its own.
	$(BIN)/podgang-lab demo

##@ Test

.PHONY: test
test: build test-unit test-e2e test-chaos ## Build, then run all tests.

.PHONY: test-unit
test-unit: ## Run the unit tests, with the race detector (needs a C compiler).
	CGO_ENABLED=1 $(GO) test -race -timeout 10m $(UNIT_PACKAGES)

# What they test is in bin, which the test cache does not see: hence -count=1. One
# package at a time, because each brings up control planes.
.PHONY: test-e2e
test-e2e: ## Run the end-to-end tests on what is in bin.
	$(GO) test -count=1 -p 1 -timeout 20m ./test/e2e/... ./test/grove/...

# The test binary is run by itself so that the last line is the test's own.
CHAOS = $(GO) test -c -o $(BIN)/chaos.test ./test/chaos && cd test/chaos && $(BIN)/chaos.test

.PHONY: test-chaos
test-chaos: ## Run a short chaos test of a fixed plan on what is in bin, and its own tests.
	$(CHAOS) -test.timeout 10m

# SEED is a number or random; DURATION is how long there are faults.
SEED ?= random
DURATION ?= 10m
.PHONY: chaos
chaos: build ## Test under faults: make chaos SEED=7 DURATION=2m (random, 10m).
	$(CHAOS) -test.run '^TestChaos$$' -test.timeout 0 -seed=$(SEED) -duration=$(DURATION)

# One core, as a scheduling cycle has. Elapsed time includes whatever else the
# machine is doing, CPU time does not.
BENCH_TABLE := /^Benchmark/ { for (i = 3; i < NF; i += 2) v[$$(i+1)] = $$i; \
	printf "%-28s %9.1f ms %9.1f ms %10d %14.1f\n", substr($$1, 15), v["ns/op"] / 1e6, v["cpu-ms/op"], v["allocs/op"], v["allocs/(node+pod)"] } \
	/FAIL|panic|shortage/
.PHONY: bench-placement
bench-placement: ## Measure plans of large gangs with devices, on one core.
	@printf '%-28s %12s %12s %10s %14s\n' plan elapsed CPU allocations 'per node+pod'
	@$(GO) test -run '^$$' -bench '^BenchmarkPlan$$' -cpu 1 -benchtime 20x ./pkg/placement | awk '$(BENCH_TABLE)'

# The schedulers that the comparison needs besides what make build makes.
.PHONY: peers
peers: ## Build the schedulers that test/perf compares with (a first time takes minutes).
	$(GO) build $(BUILD_FLAGS) -o $(BIN)/ k8s.io/kubernetes/cmd/kube-scheduler
	$(GO) -C hack/coscheduling build -buildvcs=false -ldflags "$(COSCHEDULING_LDFLAGS)" -o $(BIN)/coscheduling .

# ONLY names workloads, separated by commas; all without it. What RESULTS holds of this
# build already is not run again, so that an interrupted comparison can be taken up.
RESULTS ?= perf-results/results.jsonl
ONLY ?= $(PERF_ONLY)
.PHONY: perf-targets
perf-targets: build peers ## Compare schedulers and tell which targets are met: make perf-targets ONLY=dra-500.
	$(GO) run ./test/perf targets -out $(RESULTS) -only "$(ONLY)"

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Check style, formatting, import direction and suspicious code.
	$(GOLANGCI_LINT) run ./...

.PHONY: verify
verify: ## Check that generated files, module files and manifests are up to date.
	hack/verify.sh

##@ Maintain

.PHONY: generate
generate: $(CONTROLLER_GEN) $(CONVERSION_GEN) $(DEFAULTER_GEN) ## Generate deep copies, conversions, defaults and the CRD.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./pkg/apis/...
	$(CONVERSION_GEN) --go-header-file hack/boilerplate.go.txt --output-file zz_generated.conversion.go ./pkg/apis/config/v1
	$(DEFAULTER_GEN) --go-header-file hack/boilerplate.go.txt --output-file zz_generated.defaults.go ./pkg/apis/config/v1
# "Dangerous" is a floating point number: Grove's placementScore is one.
	$(CONTROLLER_GEN) crd:allowDangerousTypes=true paths=./pkg/apis/scheduler/... output:crd:dir=manifests/crd

.PHONY: clean
clean: ## Remove what was built. The caches of Go stay.
	rm -rf $(BIN)

# Tools, each pinned in the go.mod of its module.

$(CONTROLLER_GEN): hack/tools/generate/go.mod hack/tools/generate/go.sum
	$(GO) -C hack/tools/generate build -buildvcs=false -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(CONVERSION_GEN) $(DEFAULTER_GEN): hack/tools/generate/go.mod hack/tools/generate/go.sum
	$(GO) -C hack/tools/generate build -buildvcs=false -o $@ k8s.io/code-generator/cmd/$(@F)

$(GOLANGCI_LINT): hack/tools/lint/go.mod hack/tools/lint/go.sum
	$(GO) -C hack/tools/lint build -buildvcs=false -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
