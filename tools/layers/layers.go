package main

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/goccy/go-yaml"
)

const (
	module = "github.com/sluice-rdma/sluice"
	source = "tools/layers/layers.yaml"
)

// Layer is a row of layers.yaml: a package, or all packages that a pattern such as cc/*
// matches.
type Layer struct {
	// Is describes the package.
	Is string `yaml:"is"`
	// Leaf packages may be imported by every package that is none.
	Leaf bool `yaml:"leaf"`
	// Pure packages do no I/O, read no clock, start no goroutine and use no
	// channel.
	Pure bool `yaml:"pure"`
	// Hot packages have paths that run once a packet, segment or
	// acknowledgement: make bench measures them.
	Hot bool `yaml:"hot"`
	// API names whom a public package is for, see audiences.
	API string `yaml:"api"`
	// Imports lists what the package may import beside the standard library and
	// leaves. A path in this module is a package, x/... is x and all below it;
	// a path outside it is a module or a folder of one, with all below it.
	Imports []string `yaml:"imports"`
}

// audiences are the values of Layer.API.
var audiences = []string{"application", "engine", "tool"}

// Layers are the rows of layers.yaml in their order.
type Layers struct {
	paths []string
	rows  map[string]*Layer
}

func read(root fs.FS) (Layers, error) {
	text, err := fs.ReadFile(root, source)
	if err != nil {
		return Layers{}, err
	}
	var order yaml.MapSlice
	var l Layers
	err = yaml.UnmarshalWithOptions(text, &l.rows, yaml.Strict())
	if err == nil {
		err = yaml.Unmarshal(text, &order)
	}
	if err != nil {
		return Layers{}, fmt.Errorf("%s: %w", source, err)
	}
	for _, item := range order {
		p := fmt.Sprint(item.Key)
		if _, err := path.Match(p, ""); err != nil {
			return Layers{}, fmt.Errorf("%s: %s: %w", source, p, err)
		}
		if l.rows[p] == nil {
			return Layers{}, fmt.Errorf("%s: %s: the row is empty", source, p)
		}
		l.paths = append(l.paths, p)
	}
	return l, nil
}

// row returns the row of a package and its key: the one of its own path before
// a pattern, and the first pattern that matches. It returns nil where there is none.
func (l Layers) row(pkg string) (key string, row *Layer) {
	if row := l.rows[pkg]; row != nil {
		return pkg, row
	}
	for _, p := range l.paths {
		if ok, _ := path.Match(p, pkg); ok {
			return p, l.rows[p]
		}
	}
	return "", nil
}

// allowance returns the entry of Imports by which a row may import a package of
// this module (relative to it) or of another; "" if none does.
func (l *Layer) allowance(imported string) string {
	for _, a := range l.Imports {
		below, tree := strings.CutSuffix(a, "/...")
		tree = tree || foreign(a)
		if imported == below || tree && strings.HasPrefix(imported, below+"/") {
			return a
		}
	}
	return ""
}

// foreign reports whether an entry of Imports is outside this module.
func foreign(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".")
}
