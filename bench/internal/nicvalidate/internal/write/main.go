// Command write takes all measurements of package nicvalidate and writes the page.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/nicvalidate"
)

func main() {
	out := flag.String("o", "", "file to write; standard output without")
	first := flag.String("first", "", "file to append the first figures of new blind rows to")
	flag.Parse()
	if err := write(*out, *first); err != nil {
		fmt.Fprintln(os.Stderr, "validate-nic:", err)
		os.Exit(1)
	}
}

func write(out, first string) error {
	results, err := nicvalidate.Run()
	if err != nil {
		return err
	}
	if first != "" {
		if err := appendFirst(first, results); err != nil {
			return err
		}
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

func appendFirst(name string, results []nicvalidate.Result) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = nicvalidate.WriteFirst(f, results)
	return errors.Join(err, f.Close())
}
