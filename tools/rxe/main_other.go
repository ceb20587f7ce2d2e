//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "rxe: guests run on Linux only")
	os.Exit(126)
}
