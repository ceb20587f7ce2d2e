package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4"
)

// Sluice's own programs are found, and tested, where there is no such file; a file comes first.
func TestP4OwnPrograms(t *testing.T) {
	t.Chdir(t.TempDir())
	p4Command := func(args ...string) (status int, out, failed string) {
		var o, f bytes.Buffer
		status = run(append([]string{"p4"}, args...), &o, &f)
		return status, o.String(), f.String()
	}
	for _, name := range p4.Names() {
		if status, out, failed := p4Command("check", name); status != exitOK || !strings.HasPrefix(out, name+": ok, ") {
			t.Errorf("check %s: status %d, %s%s", name, status, out, failed)
		}
		want := strings.TrimSuffix(name, ".p4") + ".stf: pass, "
		if status, out, failed := p4Command("test", name); status != exitOK || !strings.HasPrefix(out, want) {
			t.Errorf("test %s: status %d, %s%s", name, status, out, failed)
		}
	}
	if status, _, failed := p4Command("check", "p4/mine.p4"); status == exitOK || !strings.Contains(failed, "there is no file p4/mine.p4") || !strings.Contains(failed, "p4/int.p4") {
		t.Errorf("a program that is nowhere: status %d, %s", status, failed)
	}
	if status, _, failed := p4Command("test", "p4/sluice/parser.p4"); status == exitOK || !strings.Contains(failed, "parser.p4:") {
		t.Errorf("a part of a program: status %d, %s", status, failed)
	}
	if status, _, failed := p4Command("run", "p4/int.p4", "--in", "none.pcap"); status == exitOK || !strings.Contains(failed, "none.pcap") {
		t.Errorf("run: status %d, %s", status, failed)
	}
	if err := os.Mkdir("p4", 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("p4", "int.p4"), []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, failed := p4Command("check", "p4/int.p4"); status == exitOK || !strings.Contains(failed, "p4/int.p4:1:") {
		t.Errorf("a file of that name: status %d, %s", status, failed)
	}
	// Tests beside a program, those of another program left out.
	for name, text := range map[string]string{"a.p4": "", "a-b.p4": "", "a.stf": "", "a-1.stf": "", "a-b.stf": ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"", "./"} {
		files, read, err := stfFiles(dir + "a.p4")
		if err != nil || strings.Join(files, " ") != dir+"a-1.stf "+dir+"a.stf" {
			t.Errorf("tests %q, %v", files, err)
			continue
		}
		if _, err := read(files[0]); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := stfFiles("p4/int.p4"); err == nil || !strings.Contains(err.Error(), "has no tests") {
		t.Errorf("a program without tests: %v", err)
	}
}
