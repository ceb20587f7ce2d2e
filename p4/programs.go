package p4

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Programs are Sluice's own programs, what they include and their packet tests, by
// their names in this directory.
//
//go:embed *.p4 *.stf sluice/*.p4
var Programs embed.FS

// Names lists Sluice's own programs as Find takes them.
func Names() []string {
	files, _ := fs.Glob(Programs, "*.p4")
	for i, name := range files {
		files[i] = "p4/" + name
	}
	return files
}

// Own reports whether name is, as Find takes it, that of a program of Sluice's own
// while there is no such file, and what it is called in Programs.
func Own(name string) (own string, ok bool) {
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	own, ok = strings.CutPrefix(path.Clean(filepath.ToSlash(name)), "p4/")
	if !ok || path.Ext(own) != ".p4" {
		return "", false
	}
	_, err := fs.Stat(Programs, own)
	return own, err == nil
}

// Find loads the program in a file or, where there is no such file, Sluice's own of
// that name, such as p4/int.p4.
func Find(name string, o Options) (*Program, error) {
	text, err := find(name)
	if err != nil {
		return nil, err
	}
	return load(text.name, text.src, o, text.read)
}

// text is a program's text, and how what it includes is read.
type text struct {
	name string
	src  []byte
	read func(string) ([]byte, error)
}

// find reads the text of the program that Find loads.
func find(name string) (text, error) {
	t := text{name: name, read: readText}
	if own, ok := Own(name); ok {
		t.name, t.read = own, Programs.ReadFile
	}
	var err error
	t.src, err = t.read(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no file %s, nor a program of Sluice's own of that name: those are %s", name, strings.Join(Names(), ", "))
	}
	return t, err
}
