// Command pause is the first process of a Pod: it holds the Pod's namespaces open, and does nothing else.
//
// Where the containers of a Pod share one process namespace it is also the parent of whatever lost its own, and has to
// collect what ended. It stops at the first SIGTERM or SIGINT.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for {
		collect() // Also before the first signal: a child may have ended before we listened.
		if <-signals != syscall.SIGCHLD {
			return
		}
	}
}

// collect takes note of all children that have ended. One signal may stand for several of them.
func collect() {
	for {
		child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if child <= 0 && err != syscall.EINTR {
			return
		}
	}
}
