// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	commands := map[string]func(context.Context, []string) error{"report": reportCommand, "targets": targetsCommand}
	command, args := runCommand, os.Args[1:]
	if len(args) > 0 && commands[args[0]] != nil {
		command, args = commands[args[0]], args[1:]
	}
	if err := command(ctx, args); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "perf: %v\n", err)
		os.Exit(1)
	}
}
