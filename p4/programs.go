package p4

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Programs are Sluice's own programs and what they include, by their names in this
// directory.
//
//go:embed *.p4 sluice/*.p4
var Programs embed.FS

// Names lists Sluice's own programs as Find takes them.
func Names() []string {
	files, _ := fs.Glob(Programs, "*.p4")
	for i, name := range files {
		files[i] = "p4/" + name
	}
	return files
}

// Find loads the program in a file or, where there is no such file, Sluice's own of
// that name, such as p4/int.p4.
func Find(name string, o Options) (*Program, error) {
	p, err := Load(name, o)
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	own, found := strings.CutPrefix(path.Clean(name), "p4/")
	if _, statErr := fs.Stat(Programs, own); !found || statErr != nil {
		return nil, fmt.Errorf("there is no file %s, nor a program of Sluice's own of that name: those are %s", name, strings.Join(Names(), ", "))
	}
	return LoadFS(Programs, own, o)
}
