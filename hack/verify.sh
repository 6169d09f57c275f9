#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Checks what a build does not: that generated files are those that "make generate"
# makes, that the module files are tidy, that every Go file names its licence, and
# that the manifests and examples are well formed. Works on a tree with uncommitted
# changes. Runs all checks before it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
fail() {
	echo "verify: $*" >&2
	failed=1
}

generated() {
	find pkg -name 'zz_generated.*.go'
	find manifests/crd -name '*_*.yaml'
}

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT

echo "verify: generated files"
mapfile -t files < <(generated)
cp --parents "${files[@]}" "$before"
make --no-print-directory generate
stale=0
while read -r file; do
	if ! diff -u "$before/$file" "$file"; then
		stale=1
	fi
done < <(generated)
if ((stale)); then
	fail "the generated files above were out of date; they have been generated anew, commit them"
fi

echo "verify: module files"
for dir in . hack/kwok hack/coscheduling hack/tools/generate hack/tools/lint; do
	if ! go -C "$dir" mod tidy -diff; then
		fail "$dir/go.mod or go.sum is not tidy: run \"go mod tidy\" in $dir"
	fi
done

echo "verify: licence lines"
while read -r file; do
	# Some generators put build constraints first.
	if ! head -n 5 "$file" | grep -qx '// SPDX-License-Identifier: Apache-2.0'; then
		fail "$file does not begin with // SPDX-License-Identifier: Apache-2.0"
	fi
done < <(find . -name '*.go' -not -path './bin/*')

echo "verify: scripts"
for script in .ci/run hack/*.sh; do
	bash -n "$script" || fail "$script has a syntax error"
	[[ -x $script ]] || fail "$script is not executable: run \"chmod +x $script\""
done

echo "verify: manifests and examples"
go test ./manifests/... ./examples/... || fail "the manifests or examples are not well formed"

if ((failed)); then
	echo "verify: failed" >&2
	exit 1
fi
echo "verify: ok"
