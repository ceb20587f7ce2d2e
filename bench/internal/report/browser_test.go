package report_test

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// thousand is the result of a scenario with more than a thousand flows under three
// engines.
var thousand = sync.OnceValues(func() (*results.Document, error) {
	s, err := scenario.Load(filepath.Join("testdata", "flows1000.yaml"))
	if err != nil {
		return nil, err
	}
	r, err := bench.Run(s, bench.Options{})
	if err != nil {
		return nil, err
	}
	d := results.NewDocument(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), []string{"run", "flows1000.yaml", "--report", "report.html"})
	d.Results = append(d.Results, r)
	return d, nil
})

func thousandFlows(t *testing.T) *results.Document {
	t.Helper()
	d, err := thousand()
	check(t, err)
	for _, s := range d.Results[0].Systems {
		if s.FlowsDone < 1000 {
			t.Fatalf("%s: %d flows were done, want 1000 or more", s.Name, s.FlowsDone)
		}
	}
	return d
}

// pageLimit is what the page of a run of a thousand flows takes at most.
const pageLimit = 3 << 20

func TestSize(t *testing.T) {
	var b bytes.Buffer
	check(t, results.WriteHTML(&b, thousandFlows(t)))
	t.Logf("a page of %d flows and %d systems: %d bytes", thousandFlows(t).Results[0].Systems[0].FlowsDone, len(thousandFlows(t).Results[0].Systems), b.Len())
	if b.Len() > pageLimit {
		t.Errorf("%d bytes, want %d at most", b.Len(), pageLimit)
	}
}

// file writes a page and returns its path.
func file(t *testing.T, write func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	check(t, write(&b))
	path := filepath.Join(t.TempDir(), "report.html")
	check(t, os.WriteFile(path, b.Bytes(), 0o666))
	return path
}

// screens are where a page is looked at.
var screens = []struct {
	name   string
	width  int
	height int
	scheme string
}{
	{"desktop-light", 1280, 900, "light"},
	{"desktop-dark", 1280, 900, "dark"},
	{"phone-light", 390, 844, "light"},
	{"phone-dark", 390, 844, "dark"},
}

func TestBrowser(t *testing.T) {
	b := startChromium(t)
	path := file(t, func(w *bytes.Buffer) error { return results.WriteHTML(w, thousandFlows(t)) })
	for _, s := range screens {
		b.screen(s.width, s.height, s.scheme)
		ms := b.open(path)
		t.Logf("%s: loaded in %.0f ms", s.name, ms)
		// Two seconds are for a machine that has nothing else to do; this tells
		// a page that hangs.
		if ms > 30_000 {
			t.Errorf("%s: loaded in %.0f ms", s.name, ms)
		}
		b.quiet()
		var wide int
		b.eval(`document.documentElement.scrollWidth`, &wide)
		if wide > s.width {
			t.Errorf("%s: the page is %d wide", s.name, wide)
		}
		shoot(t, b, s.name, s.width)
		contrast(t, b, s.name)
	}
}

// shoot takes a picture of the whole page, which `go test -artifacts` keeps, and
// checks that it shows something.
func shoot(t *testing.T, b *chromium, name string, width int) {
	t.Helper()
	data := b.screenshot(width, 0)
	check(t, os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), data, 0o666))
	im, err := png.Decode(bytes.NewReader(data))
	check(t, err)
	if im.Bounds().Dx() != width || im.Bounds().Dy() < 1000 {
		t.Errorf("%s: the picture is %v", name, im.Bounds())
	}
	colours := map[[3]uint32]bool{}
	for y := 0; y < im.Bounds().Dy(); y += 3 {
		for x := range width {
			r, g, b, _ := im.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	if len(colours) < 50 {
		t.Errorf("%s: the picture has %d colours", name, len(colours))
	}
}

// contrast checks the contrast of all text that is seen, by WCAG 2.2, 1.4.3: 4.5,
// or 3 for large text.
func contrast(t *testing.T, b *chromium, name string) {
	t.Helper()
	var poor []string
	b.eval(contrastScript, &poor)
	for _, p := range poor {
		t.Errorf("%s: contrast: %s", name, p)
	}
}

const contrastScript = `(() => {
	const rgb = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
	const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const ground = (e) => {
		for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
		return [255, 255, 255];
	};
	const poor = new Set();
	let seen = 0;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || !e.checkVisibility() || e.closest("script, option, .unseen") || e.disabled) continue;
		const style = getComputedStyle(e);
		const ink = rgb(e.namespaceURI.endsWith("svg") ? style.fill : style.color);
		const [a, b] = [luminance(ink), luminance(ground(e))].sort((x, y) => y - x);
		const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
		const ratio = (a + 0.05) / (b + 0.05);
		seen++;
		if (ratio < (large ? 3 : 4.5)) poor.add(ratio.toFixed(2) + ": " + e.tagName + " " + e.className + " " + n.data.trim().slice(0, 40));
	}
	if (seen < 50) poor.add("only " + seen + " texts were seen");
	return [...poor];
})()`

// TestKeyboard does with the keyboard alone what a reader does with a mouse.
func TestKeyboard(t *testing.T) {
	b := startChromium(t)
	b.screen(1280, 900, "light")
	b.open(file(t, func(w *bytes.Buffer) error { return results.WriteHTML(w, thousandFlows(t)) }))

	// The first stop leads past the head of the page.
	b.press("Tab")
	expect(t, b, `document.activeElement.className`, "skip")
	b.press("Enter")
	expect(t, b, `document.activeElement.id`, "main")

	// All that can be used is reached, in the order of the page, and has a name.
	var stops int
	b.eval(stopsScript, &stops)
	if stops < 20 {
		t.Errorf("the page has %d stops", stops)
	}
	var nameless []string
	b.eval(namelessScript, &nameless)
	for _, n := range nameless {
		t.Errorf("it has no name: %s", n)
	}

	// The cursor of a plot moves, all others of the group with it, and its values
	// are told.
	b.eval(`document.querySelector(".plots .plot").focus()`, nil)
	b.press("ArrowRight", "ArrowRight", "ArrowLeft")
	expect(t, b, `/^At [0-9.]+ ms: all [0-9.]+ Gbps/.test(document.querySelector(".plots .readout").textContent)`, true)
	expect(t, b, `document.querySelector(".plots .readout").getAttribute("role")`, "status")
	expect(t, b, `new Set([...document.querySelectorAll(".plots .plot")].map(p => p.chart.u.cursor.idx)).size`, 1)
	expect(t, b, `document.querySelector(".plots .plot").chart.u.cursor.idx > 0`, true)

	// Zooming: all plots over time show the same part, and all of it again.
	const span = `(() => { const spans = [...document.querySelectorAll(".plots .plot")].map(p => p.chart.u.scales.x).map(s => s.max - s.min);
		return new Set(spans.map(s => s.toFixed(6))).size === 1 ? spans[0] : -1 })()`
	var whole, part, again float64
	b.eval(span, &whole)
	b.press("+", "+")
	b.eval(span, &part)
	expect(t, b, `document.querySelector(".plots .readout").textContent.startsWith("Shown: time from ")`, true)
	b.press("0")
	b.eval(span, &again)
	if !(whole > 0) || part < whole*0.2 || part > whole*0.3 || again != whole {
		t.Errorf("the time axis spans %v, zoomed in %v, whole again %v", whole, part, again)
	}

	// A distribution's cursor is of its own kind.
	b.eval(`document.querySelector(".cdf .plot").focus()`, nil)
	b.press("End", "ArrowLeft")
	expect(t, b, `/^At RTT [0-9.]+ µs: .* %/.test(document.querySelector(".cdf .readout").textContent)`, true)
	b.eval(`document.querySelectorAll(".cdf input[type=checkbox]")[0].focus()`, nil)
	var before float64 // 1 for a linear axis, 3 for a logarithmic one
	b.eval(`document.querySelector(".cdf .plot").chart.u.scales.x.distr`, &before)
	b.press(" ")
	expect(t, b, `document.querySelector(".cdf .plot").chart.u.scales.x.distr`, 4-before)
	b.eval(`document.querySelectorAll(".cdf input[type=checkbox]")[1].focus()`, nil)
	b.press(" ") // the tail
	expect(t, b, `document.querySelector(".cdf .plot").chart.u.scales.y.distr`, 3.0)

	// A name in a legend switches its line off.
	b.eval(`document.querySelector(".plots .legend button").focus()`, nil)
	b.press("Enter")
	expect(t, b, `document.activeElement.getAttribute("aria-pressed")`, "false")

	// Laid over one another: a plot a quantity.
	b.eval(`document.querySelector(".plots input[value=split]").focus()`, nil)
	b.press("ArrowRight")
	expect(t, b, `document.querySelectorAll(".plots .plot").length`, 3.0)

	// Differences from a row.
	b.eval(`document.querySelector(".compare select").focus()`, nil)
	b.press("ArrowDown")
	expect(t, b, `document.querySelectorAll(".delta").length > 10`, true)

	// Links by their queues.
	b.eval(`document.querySelector(".network input[value=busy]").focus()`, nil)
	b.press("ArrowRight")
	expect(t, b, `getComputedStyle(document.querySelector(".by-busy")).display`, "none")
	expect(t, b, `getComputedStyle(document.querySelector(".by-queue")).display`, "flex")

	// Colours, against the system's.
	const ground = `getComputedStyle(document.body).backgroundColor`
	expect(t, b, ground, "rgb(255, 255, 255)")
	b.eval(`document.querySelector("#theme select").focus()`, nil)
	b.press("ArrowDown", "ArrowDown")
	expect(t, b, ground, "rgb(17, 22, 27)")
	expect(t, b, `document.documentElement.dataset.theme`, "dark")
	contrast(t, b, "dark by choice")

	b.quiet()
}

func expect[T comparable](t *testing.T, b *chromium, script string, want T) {
	t.Helper()
	var got T
	b.eval(script, &got)
	if got != want {
		t.Errorf("%s is %v, want %v", script, got, want)
	}
}

// stopsScript counts what Tab reaches, of which nothing may change the order.
const stopsScript = `(() => {
	const stops = [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex]")].filter(e => e.checkVisibility());
	return stops.some(e => e.tabIndex > 0) ? -1 : stops.filter(e => e.tabIndex === 0).length;
})()`

// namelessScript lists what can be used, and drawings, without a name.
const namelessScript = `[...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0'], svg:not([aria-hidden]), [role=region], section, nav, table, fieldset")].filter(e => {
	const by = e.getAttribute("aria-labelledby");
	return !(e.getAttribute("aria-label") || by && document.getElementById(by)?.textContent || e.labels?.[0]?.textContent.trim() ||
		e.caption?.textContent || e.querySelector("legend")?.textContent || e.textContent.trim());
}).map(e => e.outerHTML.slice(0, 120))`

// Pages with little in them open without a complaint.
func TestBrowserEdges(t *testing.T) {
	b := startChromium(t)
	b.screen(390, 844, "light")
	one := results.NewSystem("one", "none", "host")
	one.Series = []results.Series{{Kind: results.SeriesRate, Name: results.SeriesAll, Unit: "Gbps", StartUs: 5, StepUs: stats.Unmeasured, Values: []stats.Float{1}}}
	one.Distributions = []stats.Distribution{{Kind: "rtt", Name: results.SeriesAll, Unit: "us", Values: []stats.Float{3}, Share: []stats.Float{1}}}
	one.Slowdown = []results.SlowdownBin{{FromBytes: 0, ToBytes: 10, Flows: 1, P50: 1, P95: stats.Unmeasured, P99: 1}}
	zero := results.NewSystem("zero", "none", "host")
	zero.Series = []results.Series{{Kind: results.SeriesQueue, Name: "a->b", Unit: "B", StepUs: 1, Values: []stats.Float{0, 0}}}
	zero.Distributions = []stats.Distribution{{Kind: "rtt", Name: results.SeriesAll, Unit: "us", Values: []stats.Float{0, 0}, Share: []stats.Float{0, 1}}}
	empty := results.NewSystem(`</script><b>"'&`+"\u2028", "none", "host")
	for i, systems := range [][]*results.System{nil, {empty}, {one}, {zero}, {one, zero, empty}} {
		d := &results.Document{Version: results.FormatVersion, Results: []*results.Result{{Scenario: "edge </script> \u2028", YAML: "a: <!-- <script>\u2029", Systems: systems}}}
		b.open(file(t, func(w *bytes.Buffer) error { return results.WriteHTML(w, d) }))
		expect(t, b, `document.querySelector("h2").textContent`, "edge </script> \u2028")
		if i == 2 {
			// All samples have one value: the line rises there, and is seen.
			expect(t, b, `(() => { const {data, u} = document.querySelector(".cdf .plot").chart, [x] = data;
				return data[1].join() + (x[0] < x[1] && x[1] < u.scales.x.max && x[0] > u.scales.x.min) })()`, "0,100true")
		}
		expect(t, b, `[...document.querySelectorAll(".cdf input")].forEach(x => x.click())`+" ?? 1", 1.0)
		var plots []string
		b.eval(`[...document.querySelectorAll(".plot")].map(p => { p.focus(); return p.getAttribute("aria-label") })`, &plots)
		if len(plots) > 0 {
			b.press("ArrowRight", "Home", "End", "+", "-", "0")
		}
		if want := []int{0, 0, 2, 2, 3}[i]; len(plots) < want {
			t.Errorf("page %d has %d plots: %q", i, len(plots), plots)
		}
		b.quiet()
	}
}

// A comparison of many runs, drawn all at once.
func TestBrowserComparison(t *testing.T) {
	b := startChromium(t)
	var inputs []results.Input
	for i := range 4 {
		inputs = append(inputs, results.Input{Name: fmt.Sprintf("run%d", i), Document: thousandFlows(t)})
	}
	var size int
	path := file(t, func(w *bytes.Buffer) error {
		err := results.WriteComparison(w, []string{"report", "run0.json", "run1.json"}, inputs...)
		size = w.Len()
		return err
	})
	if size > pageLimit {
		t.Errorf("%d bytes, want %d at most", size, pageLimit)
	}
	b.screen(1280, 900, "light")
	t.Logf("12 systems, %d bytes: loaded in %.0f ms", size, b.open(path))
	expect(t, b, `document.querySelectorAll(".results tbody tr:not(.part)").length`, 12.0)
	expect(t, b, `document.querySelectorAll(".delta").length > 100`, true)
	shoot(t, b, "comparison", 1280)
	b.quiet()
}

// A queue is a line in a band: the band is painted from the line up to the most, the axis has
// room for it, the legend switches both, and the cursor tells both.
func TestBrowserBand(t *testing.T) {
	b := startChromium(t)
	b.screen(1280, 900, "light")
	sys := results.NewSystem("one", "none", "host")
	flat := func(v stats.Float) []stats.Float { return []stats.Float{v, v, v, v} }
	sys.Series = []results.Series{
		{Kind: results.SeriesQueue, Name: "a->b", Unit: "B", StartUs: 1, StepUs: 1, Values: flat(1024), Max: flat(4096)},
		{Kind: results.SeriesQueue, Name: "c->d", Unit: "B", StartUs: 1, StepUs: 1, Values: flat(0)}, // as versions before 2 have it
	}
	d := &results.Document{Version: results.FormatVersion, Results: []*results.Result{{Scenario: "x", Systems: []*results.System{sys}}}}
	b.open(file(t, func(w *bytes.Buffer) error { return results.WriteHTML(w, d) }))
	// The colour in the middle of the plot, at a height in KiB: another than the ground's.
	const painted = `(kib) => { const {u} = document.querySelector(".plots .plot").chart, {canvas} = u.ctx,
		c = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
		c.drawImage(canvas, 0, 0);
		const p = c.getImageData(u.valToPos(2.3, "x", true), u.valToPos(kib, "y", true), 1, 1).data; return p[3] > 0 && p[0] < 230 }`
	expect(t, b, `[0.5, 2.3, 3.3, 4.15].map(`+painted+`).join()`, "false,true,true,false")
	expect(t, b, `document.querySelector(".plots .plot").chart.u.scales.y.max > 4`, true)
	b.eval(`document.querySelector(".plots .plot").focus()`, nil)
	b.press("ArrowRight")
	expect(t, b, `document.querySelector(".plots .readout").textContent.replace(/^.*µs: /, "")`, "a->b 1.000 KiB, most 4.000 KiB, c->d 0 KiB")
	expect(t, b, `document.querySelector(".legend .value").textContent`, "1.000, most 4.000")
	expect(t, b, `[...document.querySelectorAll("td")].some(e => e.textContent === "4 KiB")`, true)
	b.eval(`document.querySelector(".plots .legend button").focus()`, nil)
	b.press("Enter")
	expect(t, b, `document.querySelector(".plots .plot").chart.u.series.slice(1).map(s => s.show).join()`, "true,false,false")
	expect(t, b, `[2.3, 3.3].map(`+painted+`).join()`, "false,false")
	b.quiet()
}
