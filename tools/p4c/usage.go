package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// usage is a program's use of a pipe of a chip.
type usage struct {
	stages           map[string]int // with tables of ingress, egress
	stagesOf         int
	srams, tcams     int // blocks
	hashBits         int // of the exact match and of gateways
	hashUnits        int // of hash distribution
	statefulALUs     int
	phvBits, phvOf   int
	containers, ctOf int
}

// readUsage reads what p4c-barefoot -g wrote: the assembly, resources.json and phv.json.
func readUsage(dir string) (u usage, err error) {
	files := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch name := e.Name(); {
		case err != nil:
		case name == "resources.json", name == "phv.json":
			files[name] = path
		case filepath.Ext(name) == ".bfa":
			files["bfa"] = path
		}
		return err
	})
	for _, name := range []string{"bfa", "resources.json", "phv.json"} {
		if err == nil && files[name] == "" {
			err = fmt.Errorf("the compiler wrote no %s", name)
		}
	}
	if err == nil {
		u.stages, err = readStages(files["bfa"])
	}
	if err == nil {
		err = u.readResources(files["resources.json"])
	}
	if err == nil {
		err = u.readPHV(files["phv.json"])
	}
	return u, err
}

var (
	stageLine = regexp.MustCompile(`^stage \d+ (ingress|egress):`)
	// A table has a kind and a name; what else stands in a stage has one word.
	tableLine = regexp.MustCompile(`^  \w+ \S+( \d+)?:`)
)

// readStages counts the stages of the assembly that have tables, by ingress and egress.
func readStages(path string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	stages := map[string]int{}
	side := ""
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		l := lines.Text()
		if m := stageLine.FindStringSubmatch(l); m != nil {
			side = m[1]
		} else if !strings.HasPrefix(l, " ") {
			side = ""
		} else if side != "" && tableLine.MatchString(l) {
			stages[side]++
			side = ""
		}
	}
	return stages, lines.Err()
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

func (u *usage) readResources(path string) error {
	var doc struct {
		Resources struct {
			MAU struct {
				Of     int `json:"nStages"`
				Stages []struct {
					Rams     struct{ Srams []any }
					Tcams    struct{ Tcams []any }
					HashBits struct{ Bits []any }                      `json:"hash_bits"`
					HashDist struct{ Units []any }                     `json:"hash_distribution_units"`
					Meters   struct{ Meters []struct{ Usages []any } } `json:"meter_alus"`
				} `json:"mau_stages"`
			}
		}
	}
	if err := readJSON(path, &doc); err != nil {
		return err
	}
	u.stagesOf = doc.Resources.MAU.Of
	for _, s := range doc.Resources.MAU.Stages {
		u.srams += len(s.Rams.Srams)
		u.tcams += len(s.Tcams.Tcams)
		u.hashBits += len(s.HashBits.Bits)
		u.hashUnits += len(s.HashDist.Units)
		u.statefulALUs += len(s.Meters.Meters)
	}
	return nil
}

// readPHV counts containers of the match-action units, not those of Tofino 1 that only
// parser and deparser see.
func (u *usage) readPHV(path string) error {
	var doc struct {
		Resources []struct {
			Group string `json:"group_type"`
			Width int    `json:"bit_width"`
			Of    int    `json:"num_containers"`
		}
		Containers []struct {
			Width int    `json:"bit_width"`
			Type  string `json:"container_type"`
		}
	}
	if err := readJSON(path, &doc); err != nil {
		return err
	}
	for _, r := range doc.Resources {
		if r.Group == "mau" {
			u.phvOf += r.Width * r.Of
			u.ctOf += r.Of
		}
	}
	for _, c := range doc.Containers {
		if c.Type != "tagalong" {
			u.phvBits += c.Width
			u.containers++
		}
	}
	return nil
}
