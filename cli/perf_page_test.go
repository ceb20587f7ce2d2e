package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/verbs/exchange"
)

//go:generate go test -run ^TestPerfPage$ -update .

// TestPerfPage compares the table of flags in docs/perf.md with the flags.
func TestPerfPage(t *testing.T) {
	const page, begin, end = "../docs/perf.md", "<!-- flags, written by go generate ./cli -->\n", "<!-- end of flags -->\n"
	var b strings.Builder
	b.WriteString(begin + "| | takes | default | |\n|---|---|---|---|\n")
	cmd := newPerf(nil)
	for _, config := range []reflect.Type{reflect.TypeFor[endFlags](), reflect.TypeFor[perf.Config](), reflect.TypeFor[pacingFlags](), reflect.TypeFor[perfFlags]()} {
		for _, f := range field.Flags(config) {
			name := "`--" + f.Name + "`"
			if f.Letter != "" {
				name = "`-" + f.Letter + "`, " + name
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, f.Given, cmp.Or(f.Otherwise(), f.Default), markValue.Replace(f.Help))
			if registered := cmd.Flags().Lookup(f.Name); registered == nil || registered.Shorthand != f.Letter {
				t.Errorf("sluice perf does not have %s", name)
			}
		}
	}
	b.WriteString(end)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := bytes.Cut(text, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !begun || !ended {
		t.Fatalf("%s has no place for the flags", page)
	}
	want := bytes.Join([][]byte{before, []byte(b.String()), after}, nil)
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s does not have the flags of sluice perf: run go generate ./cli", page)
	}
}

// The ports that the flags begin with are those of perftest and rping.
func TestDefaultPorts(t *testing.T) {
	var p perfFlags
	var r rpingFlags
	field.Fill(&p)
	field.Fill(&r)
	if p.Port != exchange.DefaultPort || r.Port != perf.PingPort {
		t.Errorf("ports %d and %d, want %d and %d", p.Port, r.Port, exchange.DefaultPort, perf.PingPort)
	}
}
