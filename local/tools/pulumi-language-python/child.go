package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// How long a process may take to end after it was told to, before it is killed.
const gracePeriod = 5 * time.Second

// terminable makes the end of a command's context a polite one: SIGTERM first. The command must have been made with
// that context. It stays in our process group, so that an engine which kills the group reaches it, too.
func terminable(command *exec.Cmd) {
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = gracePeriod
}

// exitCode tells how a command ended: its code where it ran to an end of its own, an error where it couldn't be run or
// where we ended it.
func exitCode(ctx context.Context, err error) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err == nil {
		return 0, nil
	}
	var exited *exec.ExitError
	if !errors.As(err, &exited) {
		return 0, err
	}
	if exited.ExitCode() < 0 { // By a signal; as a shell would tell it.
		if wait, ok := exited.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
			return 128 + int(wait.Signal()), nil
		}
		return 1, nil
	}
	return exited.ExitCode(), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
