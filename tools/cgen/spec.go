package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
)

// Spec lists what to generate.
type Spec struct {
	// Header is the name of the header, and Source that of the one file to compile,
	// which includes the others: one for each package.
	Header string `yaml:"header"`
	Source string `yaml:"source"`
	// About is a comment for the header.
	About string `yaml:"about"`

	// Packages are the packages that C may have, by their paths in the module: the
	// word between sluice_ and their names. The type Main of a package has that word
	// alone.
	Packages []Package `yaml:"packages"`

	// Interface is the one whose values may be of the Variants' types. A value is a
	// pointer to a union of those with a tag. The As interfaces extend it.
	Interface string    `yaml:"interface"`
	As        []string  `yaml:"as"`
	Variants  []Variant `yaml:"variants"`

	// Opaque are other interfaces, of which C has pointers to what it does not know.
	Opaque []string `yaml:"opaque"`

	// Out names what is not among the Variants, and why.
	Out map[string]string `yaml:"out"`

	// Roots are the functions, methods and types that programs use. What these need
	// comes along.
	Roots []string `yaml:"roots"`
}

// Package is one package of a Spec.
type Package struct {
	Path   string `yaml:"path"`
	Prefix string `yaml:"prefix"`
	Main   string `yaml:"main"`
}

// Variant is one dynamic type of the Spec's interface.
type Variant struct {
	Tag   string `yaml:"tag"`   // in snake case
	Type  string `yaml:"type"`  // a struct type, or a pointer to it: whichever has the methods
	Start string `yaml:"start"` // a function that returns its initial value
}

func readSpec(file string) (*Spec, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var s Spec
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &s, nil
}
