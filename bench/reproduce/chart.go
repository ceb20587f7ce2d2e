package reproduce

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// chart is lines over one axis.
type chart struct {
	Title string
	X, Y  string // names of the axes, with units
	LogX  bool
	Lines []chartLine
}

// chartLine is one line of a chart. Points whose Y is NaN are left out.
type chartLine struct {
	Name string
	X, Y []float64
	// Dots draws the points apart, for what is not a function of X: the paper's own
	// figures, or a sweep.
	Dots bool
}

// over is a sweep: a figure a value of x.
func over(name string, f *figureSet, xs []float64, figure func(i int) string) chartLine {
	l := chartLine{Name: name, Dots: true}
	for i, x := range xs {
		l.X, l.Y = append(l.X, x), append(l.Y, f.get(figure(i)))
	}
	return l
}

const (
	chartWide, chartHigh = 520.0, 260.0
	chartLeft, chartTop  = 64.0, 12.0
	chartRight           = 12.0
	chartBottom          = 44.0
	chartPoints          = 600 // of a line; more can't be told apart
)

// axis maps values to places.
type axis struct {
	from, to float64 // values
	at, wide float64 // places
	log      bool
}

func (a *axis) place(v float64) float64 {
	from, to := a.from, a.to
	if a.log {
		v, from, to = math.Log10(v), math.Log10(from), math.Log10(to)
	}
	return a.at + float64(a.wide*(v-from)/(to-from))
}

// ticks are some four to eight round values.
func (a *axis) ticks() []float64 {
	var out []float64
	if a.log {
		for e := math.Floor(math.Log10(a.from)); e <= math.Ceil(math.Log10(a.to)); e++ {
			if v := math.Pow(10, e); v >= a.from*0.999 && v <= a.to*1.001 {
				out = append(out, v)
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((a.to-a.from)/4)))
	for (a.to-a.from)/step > 8 {
		step *= 2
		if (a.to-a.from)/step > 8 {
			step *= 2.5
		}
	}
	for i := math.Ceil(a.from / step); i*step <= a.to+step/1e6; i++ {
		out = append(out, i*step)
	}
	return out
}

// svg draws the chart; without a point it is empty.
func (c *chart) svg() template.HTML {
	x := axis{from: math.Inf(1), to: math.Inf(-1), at: chartLeft, wide: chartWide - chartLeft - chartRight, log: c.LogX}
	y := axis{from: 0, to: math.Inf(-1), at: chartHigh - chartBottom, wide: -(chartHigh - chartTop - chartBottom)}
	for _, l := range c.Lines {
		for i := range l.X {
			if drawable(l.X[i], l.Y[i], c.LogX) {
				x.from, x.to = min(x.from, l.X[i]), max(x.to, l.X[i])
				y.from, y.to = min(y.from, l.Y[i]), max(y.to, l.Y[i])
			}
		}
	}
	if x.from > x.to {
		return ""
	}
	if x.from == x.to {
		x.to = x.from + max(math.Abs(x.from), 1)
	}
	if y.to <= y.from {
		y.to = y.from + 1
	}
	y.to += (y.to - y.from) / 20
	var b strings.Builder
	num := func(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
	fmt.Fprintf(&b, `<svg class="chart" role="img" viewBox="0 0 %s %s" aria-label="%s">`, num(chartWide), num(chartHigh), html.EscapeString(c.describe()))
	for _, v := range y.ticks() {
		at := num(y.place(v))
		fmt.Fprintf(&b, `<path class="grid" d="M%s %sH%s"/><text class="y" x="%s" y="%s">%s</text>`,
			num(chartLeft), at, num(chartWide-chartRight), num(chartLeft-6), num(y.place(v)+4), tick(v))
	}
	for _, v := range x.ticks() {
		fmt.Fprintf(&b, `<path class="grid" d="M%s %sV%s"/><text class="x" x="%s" y="%s">%s</text>`,
			num(x.place(v)), num(chartTop), num(chartHigh-chartBottom), num(x.place(v)), num(chartHigh-chartBottom+16), tick(v))
	}
	fmt.Fprintf(&b, `<text class="x" x="%s" y="%s">%s</text>`, num(chartLeft+x.wide/2), num(chartHigh-8), html.EscapeString(c.X))
	fmt.Fprintf(&b, `<text class="x" transform="translate(14 %s) rotate(-90)">%s</text>`, num((chartTop+chartHigh-chartBottom)/2), html.EscapeString(c.Y))
	for i := range c.Lines {
		c.Lines[i].draw(&b, i, &x, &y, c.LogX, num)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // what came from outside is escaped
}

func (c *chart) describe() string {
	var names []string
	for _, l := range c.Lines {
		names = append(names, l.Name)
	}
	return fmt.Sprintf("%s: %s over %s, of %s", c.Title, c.Y, c.X, strings.Join(names, ", "))
}

func drawable(x, y float64, logX bool) bool {
	return !math.IsNaN(x) && !math.IsInf(x, 0) && !math.IsNaN(y) && !math.IsInf(y, 0) && (!logX || x > 0)
}

func (l *chartLine) draw(b *strings.Builder, i int, x, y *axis, logX bool, num func(float64) string) {
	class := fmt.Sprintf("line-%d", i%8)
	keep := l.thinned()
	if l.Dots {
		for _, j := range keep {
			if drawable(l.X[j], l.Y[j], logX) {
				fmt.Fprintf(b, `<circle class="%s" cx="%s" cy="%s" r="4"><title>%s: %s at %s</title></circle>`,
					class, num(x.place(l.X[j])), num(y.place(l.Y[j])), html.EscapeString(l.Name), short(l.Y[j]), short(l.X[j]))
			}
		}
		return
	}
	fmt.Fprintf(b, `<path class="%s" d="`, class)
	pen := "M"
	for _, j := range keep {
		if !drawable(l.X[j], l.Y[j], logX) {
			continue
		}
		b.WriteString(pen + num(x.place(l.X[j])) + " " + num(y.place(l.Y[j])))
		pen = "L"
	}
	fmt.Fprintf(b, `"><title>%s</title></path>`, html.EscapeString(l.Name))
}

// thinned returns the points to draw: all, or of each stretch the least and the
// greatest, so that no peak is lost.
func (l *chartLine) thinned() []int {
	n := len(l.X)
	var keep []int
	if n <= chartPoints {
		for i := range n {
			keep = append(keep, i)
		}
		return keep
	}
	stretches := chartPoints / 2
	for s := range stretches {
		from, to := s*n/stretches, (s+1)*n/stretches
		least, greatest := -1, -1
		for i := from; i < to; i++ {
			if math.IsNaN(l.Y[i]) {
				continue
			}
			if least < 0 || l.Y[i] < l.Y[least] {
				least = i
			}
			if greatest < 0 || l.Y[i] > l.Y[greatest] {
				greatest = i
			}
		}
		if least >= 0 {
			keep = append(keep, min(least, greatest))
			if least != greatest {
				keep = append(keep, max(least, greatest))
			}
		}
	}
	return keep
}

// tick writes a value of an axis.
func tick(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return strconv.FormatFloat(v/1e9, 'g', 4, 64) + "G"
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case a >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
