// Command write takes all measurements of package nicvalidate and writes the page.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/nicvalidate"
)

func main() {
	out := flag.String("o", "", "file to write; standard output without")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "validate-nic:", err)
		os.Exit(1)
	}
}

func write(out string) error {
	results, err := nicvalidate.Run()
	if err != nil {
		return err
	}
	clock, err := nicvalidate.RunClock()
	if err != nil {
		return err
	}
	var page strings.Builder
	if err := nicvalidate.Markdown(&page, results, clock); err != nil {
		return err
	}
	if out == "" {
		_, err := fmt.Print(page.String())
		return err
	}
	return os.WriteFile(out, []byte(page.String()), 0o666)
}
