package outfile

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// CutSection cuts a page at its section of a name: what stands between a line
// <!-- NAME --> and a line <!-- end of NAME -->, which before and after keep.
func CutSection(page, name string) (before, section, after string, err error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, begins := strings.Cut(page, begin)
	section, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("the page has no place for %q: it is between a line %q and a line %q",
			name, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin, section, end + after, nil
}

// WriteSection gives a section of a page, which others wrote around it, another text.
func WriteSection(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, _, after, err := CutSection(string(page), name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, before+text+after)
		return err
	})
}
