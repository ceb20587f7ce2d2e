package nicvalidate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// Every blind row has a run, or a reason why it has none; older rows and points that one
// repeats are there, with its figure.
func TestBlindRows(t *testing.T) {
	older := map[string]float64{}
	for _, r := range Published() {
		if r.Class != Blind {
			for _, p := range r.Points {
				older[r.ID+", "+p.At] = p.Value
			}
		}
	}
	rows := BlindRows()
	if len(rows) != 218 {
		t.Errorf("%d blind rows, want the 218 that were taken down", len(rows))
	}
	for i := range rows {
		b := &rows[i]
		if (b.Status == Predicted) != (b.Why == "") {
			t.Errorf("%s is %s, because of %q", b.row.ID, b.Status, b.Why)
		}
		if b.Status == Repeats && math.Abs(b.value()/older[b.Why]-1) > 0.001 {
			t.Errorf("%s, %v, repeats %q, which is %v", b.row.ID, b.value(), b.Why, older[b.Why])
		}
		if b.Status == Excluded || b.Status == Repeats || b.row.Kind == "pcie" {
			continue
		}
		for _, slot := range append(b.run.PCIe, b.row.Host.PCIe)[:max(1, len(b.run.PCIe))] {
			if _, err := slotRate(slot); err != nil && b.Status == Predicted {
				t.Errorf("%s: %v", b.row.ID, err)
			}
		}
		if b.run.Link.Rate == 0 {
			t.Errorf("%s has no link", b.row.ID)
		}
	}
}

func TestParseBlindRefuses(t *testing.T) {
	const row = "- {id: X, kind: nic, device: ConnectX-5, quantity: rate, value: 1, unit: Mops}\n"
	const run = "- {rows: [X], source: S, conf: A, run: stream}\n"
	if rows, err := parseBlind([]byte(row), []byte(run)); err != nil || len(rows) != 1 || rows[0].Status != Predicted {
		t.Fatalf("%+v, %v", rows, err)
	}
	for said, want := range map[string]Class{"": Blind, "seen: why, ": Seen, "fit: what, ": Fit, "seen: why, fit: what, ": Fit} {
		rows, err := parseBlind([]byte(row), []byte(strings.Replace(run, "run:", said+"run:", 1)))
		if err != nil || rows[0].published().Class != want {
			t.Errorf("%q: %v, %v, want %s", said, rows, err, want)
		}
	}
	for name, c := range map[string][2]string{
		"no run":           {row, ""},
		"two runs":         {row, run + run},
		"a run of no row":  {row, run + strings.Replace(run, "X", "Y", 1)},
		"run and excluded": {row, strings.Replace(run, "run: stream", "run: stream, excluded: because", 1)},
		"neither":          {row, strings.Replace(run, "run: stream", "", 1)},
		"another run":      {row, strings.Replace(run, "stream", "trickle", 1)},
		"another key":      {row, strings.Replace(run, "run:", "runs:", 1)},
		"no source":        {row, strings.Replace(run, "source: S, ", "", 1)},
		"no value":         {strings.Replace(row, "value: 1, ", "", 1), run},
		"unit":             {strings.Replace(row, "Mops", "furlongs", 1), run},
		"kind":             {strings.Replace(row, "kind: nic", "kind: usb", 1), run},
	} {
		if rows, err := parseBlind([]byte(c[0]), []byte(c[1])); err == nil {
			t.Errorf("%s: %+v", name, rows)
		}
	}
	rows, err := parseBlind([]byte(strings.Replace(row, "ConnectX-5", "ConnectX-2", 1)), []byte(run))
	if err != nil || rows[0].Status != NoPreset {
		t.Errorf("a device without a preset: %+v, %v", rows, err)
	}
	rows, err = parseBlind([]byte(strings.Replace(row, "value: 1, unit: Mops", "value: 2000, unit: ops/ms, converted: {value: 2, unit: Mops}", 1)), []byte(run))
	if err != nil || rows[0].value() != 2 {
		t.Fatalf("a converted figure: %+v, %v", rows, err)
	}
	if unit, err := rows[0].unit(); err != nil || unit != "M/s" {
		t.Errorf("its unit is %q, %v", unit, err)
	}
}

func TestSlotRate(t *testing.T) {
	for slot, want := range map[string]units.Rate{
		"3.0 x8": 57_880 * units.Mbps, "3.0 x16": 113_700 * units.Mbps, "4.0 x16": 227_400 * units.Mbps,
		"5.0 x16": 454_800 * units.Mbps, "5.0 x4": 113_700 * units.Mbps,
	} {
		if got, err := slotRate(slot); err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", slot, got, err, want)
		}
	}
	for _, slot := range []string{"", "x8", "2.0 x8"} {
		if got, err := slotRate(slot); err == nil {
			t.Errorf("%q: %v", slot, got)
		}
	}
}

// A load does the same each time, no more than the link carries, twice that both ways, and less by rounds.
func TestBlindLoad(t *testing.T) {
	cfg, err := nicmodel.Preset("cx5")
	if err != nil {
		t.Fatal(err)
	}
	base := blindLoad{service: ib.RC, op: ib.WRRDMAWrite, payload: 4096, machines: 2, queues: 4, threads: 2, window: 4, signal: 1, mtu: 4096, direct: true, link: back, nics: []nicmodel.Config{cfg}}
	run := func(change func(l *blindLoad)) float64 {
		l := base
		change(&l)
		rate, err := l.run()
		if err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
		return rate
	}
	one := run(func(*blindLoad) {})
	most := 100e3 / 8 / 4096.
	if again := run(func(*blindLoad) {}); again != one {
		t.Errorf("%v, and then %v", one, again)
	}
	if one > most || one < 0.8*most {
		t.Errorf("%v M/s; the link carries %v", one, most)
	}
	if both := run(func(l *blindLoad) { l.both = true }); both < 1.5*one || both > 2*most {
		t.Errorf("both ways %v M/s, one way %v", both, one)
	}
	if long := run(func(l *blindLoad) { l.payload = 64 << 10 }); long*16 < 0.9*one || long*16 > most {
		t.Errorf("of 64 KiB %v M/s, of 4 KiB %v", long, one)
	}
	small := func(l *blindLoad) { l.payload, l.queues, l.threads, l.inline = 8, 2, 2, true }
	rounds := func(l *blindLoad) { small(l); l.rounds = true }
	if s, r := run(small), run(rounds); r >= s || r < s/4 {
		t.Errorf("by rounds %v M/s, without %v", r, s)
	}
	if uc := run(func(l *blindLoad) {
		small(l)
		l.service, l.both, l.machines, l.direct, l.queues = ib.UC, true, 3, false, 6
	}); uc <= 0 {
		t.Errorf("UC: %v M/s", uc)
	}
	for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMARead} {
		if v := run(func(l *blindLoad) { l.op, l.payload = op, 64<<10 }); v <= 0.5*most/16 || v > most/16 {
			t.Errorf("%v: %v M/s; the link carries %v", op, v, most/16)
		}
	}
	// The first completions wait until a thread has posted a whole window, and are then polled one right after the other.
	for name, change := range map[string]func(l *blindLoad){
		"one way": func(l *blindLoad) { l.queues, l.threads, l.window, l.payload = 1, 1, 128, 8<<10 },
		"sends both ways": func(l *blindLoad) {
			l.queues, l.threads, l.window, l.payload, l.op, l.both = 1, 1, 64, 64<<10, ib.WRSend, true
		},
	} {
		l := base
		change(&l)
		carried := 100e3 / 8 / float64(l.payload)
		if l.both {
			carried *= 2
		}
		if v, err := l.run(); err != nil || v <= 0.8*carried || v > carried {
			t.Errorf("%s: %v M/s (%v); the link carries %v", name, v, err, carried)
		}
	}
	never := base
	never.signal = 8
	if v, err := never.run(); err == nil {
		t.Errorf("a completion in 8 of 4 outstanding: %v M/s", v)
	}
}

// What a row says of a PCIe device's test is read as that of the older rows.
func TestBlindDMANames(t *testing.T) {
	var got []string
	for _, b := range BlindRows() {
		if b.row.ID == "pb-ib-iommu-rd512-64m" || b.row.ID == "pb-ib-remote-rd64" || b.row.ID == "pb-ib-lat-rd64-cold" || b.row.ID == "pb-e3-wr256" {
			got = append(got, b.dma())
		}
	}
	want := []string{"write 256 B", "read 512 B, window 64 MiB, iommu", "read 64 B, remote", "read 64 B, window 64 MiB, cold"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Every blind row that is run has its first figure, and no other row has one.
func TestFirstFigures(t *testing.T) {
	first := First()
	for _, b := range BlindRows() {
		if _, ok := first[b.row.ID]; ok != (b.Status == Predicted) {
			t.Errorf("%s, which is %s, has a first figure: %v; make validate-nic adds them", b.row.ID, b.Status, ok)
		}
		delete(first, b.row.ID)
	}
	for id := range first {
		t.Errorf("blindfirst.yaml: %s is no blind row", id)
	}
	results := []Result{
		{Row: Row{ID: "new", Class: Blind}, Figures: []Figure{{Value: 1.5}}}, {Row: Row{ID: "old", Class: Seen}, Figures: []Figure{{Value: 2}}},
		{Row: Row{ID: "pb-ib-rd64", Class: Blind}, Figures: []Figure{{Value: 3}}},
	}
	var b strings.Builder
	if err := WriteFirst(&b, results); err != nil || b.String() != "new: 1.5\n" {
		t.Errorf("%q (%v), want the new row's", b.String(), err)
	}
	if v := firstFigures(results)[2].Figures[0].Value; v != 33.245 || results[2].Figures[0].Value != 3 {
		t.Errorf("the first figure of pb-ib-rd64 is %v, want 33.245", v)
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		q    float64
		want float64
	}{{nil, 0.5, 0}, {[]float64{7}, 0.9, 7}, {[]float64{1, 2, 4}, 0.5, 2}, {[]float64{1, 2, 4, 8}, 0.5, 3}, {[]float64{0, 10}, 0.9, 9}} {
		if got := quantile(c.of, c.q); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v of %v: %v, want %v", c.q, c.of, got, c.want)
		}
	}
}
