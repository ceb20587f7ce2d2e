package workload

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/units"
)

// Distributions of flow sizes that a scenario brings with it: a file of points, in the
// forms of the field's simulators, or points in the scenario itself. A point is a size in
// bytes and the share of flows of at most that size, in percent (HPCC's) or as a fraction
// (htsim's, Homa's and ABM's); the last one says which. Blanks or a comma stand between
// the two. Homa's files begin with the mean, alone on its line.

// Bounds of such a file.
const (
	maxSizeFileBytes = 16 * units.MiB
	maxSizePoints    = 1 << 18
	maxFlowSize      = 1 << 50
)

// isSizeFile reports whether a choice of sizes names a file: it has a folder or an
// extension.
func isSizeFile(text string) bool {
	ext := filepath.Ext(text)
	return strings.ContainsAny(text, `/\`) || len(ext) > 1 && (ext[1] < '0' || ext[1] > '9')
}

// DecodeNode implements tree.Decoder.
func (s *Sizes) DecodeNode(d *tree.Document, n *tree.Node, path string) {
	switch {
	case n.Kind == tree.Null:
		d.Fail(path, "no value is given: give one, or leave the key out for its default")
	case n.Kind == tree.Sequence:
		s.decodePoints(d, n, path)
	case !d.Want(n, path, tree.Scalar):
	case isSizeFile(n.Text):
		s.decodeFile(d, n, path)
	default:
		if err := s.UnmarshalText([]byte(n.Text)); err != nil {
			d.Fail(path, "%v", units.SuggestUnit(err, "KiB"))
		}
	}
}

// EncodeNode implements tree.Encoder.
func (s Sizes) EncodeNode() any {
	if s.given == nil || s.Name != "" {
		text, err := s.MarshalText()
		if err != nil {
			panic(fmt.Sprintf("workload: %v", err)) // sizes always print
		}
		return string(text)
	}
	var all []any
	for _, p := range s.given.points {
		all = append(all, []any{p.size, p.share})
	}
	return all
}

func (s *Sizes) decodeFile(d *tree.Document, n *tree.Node, path string) {
	name := n.Text
	if n.Pos.Set == "" && !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(n.Pos.File), name) // so that it is found where YAML's text is read
	}
	*s = Sizes{Name: name}
	src, err := readWhole(name, maxSizeFileBytes)
	if err != nil {
		d.Fail(path, "%v", err)
		return
	}
	points, mean, bad := parseSizes(src)
	if bad != nil {
		d.FailAt(tree.Pos{File: name, Line: bad.line}, bad.field, bad.msg)
		return
	}
	s.give(name, points)
	said := ""
	if is := s.given.Mean(); mean > 0 && math.Abs(mean-is) > 0.01*is {
		said = fmt.Sprintf("; the file itself says %.0f", mean)
	}
	d.Note(tree.Pos{File: name}, fmt.Sprintf("flow sizes of %d points, with a mean of %.0f bytes%s", len(points), s.given.Mean(), said))
}

func (s *Sizes) decodePoints(d *tree.Document, n *tree.Node, path string) {
	var c points
	for i, item := range n.Items {
		if item.Kind != tree.Sequence || len(item.Items) != 2 || item.Items[0].Kind != tree.Scalar || item.Items[1].Kind != tree.Scalar {
			d.FailAt(item.Pos, fmt.Sprintf("%s[%d]", path, i), "a point is a size and a share, such as [10KB, 0.15]")
			return
		}
		size, share := item.Items[0].Text, item.Items[1].Text
		if b, err := units.ParseBytes(size); err == nil {
			size = strconv.FormatInt(int64(b), 10)
		}
		if msg := c.add(size, share); msg != "" {
			d.FailAt(item.Pos, fmt.Sprintf("%s[%d]", path, i), msg)
			return
		}
	}
	if msg := c.ends(); msg != "" {
		d.FailAt(n.Pos, path, msg)
		return
	}
	*s = Sizes{}
	s.give("points", c)
	d.Note(n.Pos, fmt.Sprintf("%s: flow sizes of %d points, with a mean of %.0f bytes", path, len(c), s.given.Mean()))
}

// give makes points the distribution.
func (s *Sizes) give(name string, c points) {
	d := &Distribution{Name: name, points: c, whole: c[len(c)-1].share}
	if c[0].share > 0 { // this share is of the first size
		d.points = append(points{{c[0].size, 0}}, c...)
	}
	s.given, s.Least, s.Most = d, units.Bytes(c[0].size), units.Bytes(c[len(c)-1].size)
}

// points are those of a distribution as it is read.
type points []point

// add takes the next point, or says what is wrong with it.
func (c *points) add(size, share string) string {
	x, err := strconv.ParseFloat(size, 64)
	if err != nil || !(x >= 0 && x <= maxFlowSize) {
		return fmt.Sprintf("%s is no size in bytes, 0 or more", quoteShort(size))
	}
	y, err := strconv.ParseFloat(share, 64)
	if err != nil || !(y >= 0 && y <= 100) {
		return fmt.Sprintf("%s is no share of flows: write 0 to 1, or 0 to 100", quoteShort(share))
	}
	if k := len(*c); k > 0 {
		last := (*c)[k-1]
		switch {
		case x <= last.size:
			return fmt.Sprintf("the size %s does not rise, after %g: put points in order, each size once", size, last.size)
		case y < last.share:
			return fmt.Sprintf("the share %s falls, after %g: give of each size the share of flows of at most that size", share, last.share)
		case k >= maxSizePoints:
			return fmt.Sprintf("there are more than %d points: leave some out", maxSizePoints)
		}
	}
	*c = append(*c, point{x, y})
	return ""
}

// ends returns the fault of the last point.
func (c points) ends() string {
	if len(c) == 0 {
		return "there is no point: give sizes and shares, such as 10000 0.15, up to a share of 1 or 100"
	}
	last := c[len(c)-1]
	if last.share != 100 && math.Abs(last.share-1) > 1e-6 {
		return fmt.Sprintf("the last share is %g: end at 1 (fractions) or 100 (percent), which all flows reach", last.share)
	}
	if last.size < 1 {
		return "all flows would be empty: give sizes in bytes"
	}
	return ""
}

// parseSizes reads a file of points, and the mean that it gives itself, or 0. Lines that
// begin with # are comments, and a first line of words alone is a heading.
func parseSizes(src []byte) (c points, mean float64, bad *traceError) {
	l := &traceLines{rest: bytes.ReplaceAll(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), []byte(","), []byte(" "))}
	for first := true; l.next(); {
		if l.words[0][0] == '#' {
			continue
		}
		was := first
		first = false
		_, err := strconv.ParseFloat(l.words[0], 64)
		switch {
		case was && err != nil && len(l.words) > 1 && isHeading(l.words):
			continue
		case was && err == nil && len(l.words) == 1:
			mean, _ = strconv.ParseFloat(l.words[0], 64)
			if !(mean > 0 && mean <= maxFlowSize) {
				return nil, 0, l.fail("", "%s is no mean size in bytes, which a number alone on the first line is", quoteShort(l.words[0]))
			}
		case len(l.words) != 2:
			return nil, 0, l.fail("", "there are %d words where a point has 2: a size in bytes, and the share of flows of at most that size", len(l.words))
		default:
			if msg := c.add(l.words[0], l.words[1]); msg != "" {
				return nil, 0, l.fail("", "%s", msg)
			}
		}
	}
	if msg := c.ends(); msg != "" {
		return nil, 0, l.fail("", "%s", msg)
	}
	return c, mean, nil
}

func isHeading(words []string) bool {
	for _, w := range words {
		if _, err := strconv.ParseFloat(w, 64); err == nil {
			return false
		}
	}
	return true
}
