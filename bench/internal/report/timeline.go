package report

import (
	"fmt"
	"html/template"
	"strconv"
)

// Timeline is the parts of a piece of work, in order.
type Timeline struct {
	Title string
	Notes []string // paragraphs ahead of it
	// Places are where parts are spent, as rows and colours name them.
	Places []string
	Parts  []TimelinePart // in order; each begins where the one ahead ends
}

// TimelinePart is one part of a timeline.
type TimelinePart struct {
	Name  string
	Place int     // index in Places
	Took  float64 // seconds
}

func (t *Timeline) check() error {
	for i, p := range t.Parts {
		if p.Place < 0 || p.Place >= len(t.Places) {
			return fmt.Errorf("part %d, %q: place %d of %d", i, p.Name, p.Place, len(t.Places))
		}
		if !finite(p.Took) || p.Took < 0 {
			return fmt.Errorf("part %d, %q: takes %v s", i, p.Name, p.Took)
		}
	}
	return nil
}

// timelineView is a timeline as the page shows it.
type timelineView struct {
	Title  string
	Notes  []string
	Places []string
	Rows   []timelineRow
	Total  float64
}

// timelineRow is a part with its bar.
type timelineRow struct {
	Name, Where       string
	From, Took, Share float64
	Colour            int // of the place
	Bar               template.HTML
}

const (
	barWide    = 1000 // units of a bar's drawing, whatever its width on the screen
	barLeast   = 4    // so that the shortest part can be seen
	barColours = 4
)

func (t *Timeline) view() timelineView {
	v := timelineView{Title: t.Title, Notes: t.Notes, Places: t.Places}
	for _, p := range t.Parts {
		v.Total += p.Took
	}
	from := 0.0
	for _, p := range t.Parts {
		row := timelineRow{Name: p.Name, Where: t.Places[p.Place], From: from, Took: p.Took, Colour: p.Place % barColours}
		if v.Total > 0 {
			row.Share = p.Took / v.Total
			wide := max(row.Share*barWide, barLeast)
			x := min(from/v.Total*barWide, barWide-wide)
			num := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
			row.Bar = template.HTML(fmt.Sprintf(`<svg class="bar" viewBox="0 0 %d 10" preserveAspectRatio="none" aria-hidden="true"><rect class="p%d" x="%s" width="%s" height="10"/></svg>`,
				barWide, row.Colour, num(x), num(wide)))
		}
		v.Rows = append(v.Rows, row)
		from += p.Took
	}
	return v
}
