package outfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const page = "a\n<!-- one -->\nold\n<!-- end of one -->\nb\n<!-- two -->\nkept\n<!-- end of two -->\n"
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteSection(path, "one", "new\n"); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(path)
	if want := strings.Replace(page, "old", "new", 1); err != nil || string(have) != want {
		t.Errorf("%q, error %v, want %q", have, err, want)
	}
	if err := WriteSection(path, "three", "new\n"); err == nil || !strings.Contains(err.Error(), `page.md: the page has no place for "three"`) {
		t.Errorf("a section that is not there: %v", err)
	}
	if err := WriteSection(path+"x", "one", ""); !os.IsNotExist(err) {
		t.Errorf("a page that is not there: %v", err)
	}
}

func TestCutSectionNeedsBothLines(t *testing.T) {
	for _, page := range []string{"", "<!-- a -->\n", "<!-- end of a -->\n", "<!-- end of a -->\n<!-- a -->\n"} {
		if _, _, _, err := CutSection(page, "a"); err == nil {
			t.Errorf("%q: no error", page)
		}
	}
	before, section, after, err := CutSection("x\n<!-- a -->\ny\n<!-- end of a -->\nz\n", "a")
	if err != nil || before != "x\n<!-- a -->\n" || section != "y\n" || after != "<!-- end of a -->\nz\n" {
		t.Errorf("%q %q %q, %v", before, section, after, err)
	}
}
