package nicvalidate

import (
	"cmp"
	_ "embed" // the blind rows, and how they are run

	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// takenDown is an entry of blind.yaml, as far as its run needs it.
type takenDown struct {
	ID     string `yaml:"id"`
	Kind   string `yaml:"kind"` // nic or pcie
	Source struct {
		Title string `yaml:"title"`
	} `yaml:"source"`
	Device string `yaml:"device"`
	Host   struct {
		PCIe  string `yaml:"pcie"`
		MPS   int    `yaml:"mps_bytes"`
		MRRS  int    `yaml:"mrrs_bytes"`
		IOMMU string `yaml:"iommu"`
	} `yaml:"host"`
	What      blindWhat `yaml:"what"`
	Quantity  string    `yaml:"quantity"`
	Value     float64   `yaml:"value"`
	Unit      string    `yaml:"unit"`
	Converted struct {
		Value float64 `yaml:"value"`
		Unit  string  `yaml:"unit"`
	} `yaml:"converted"`
}

// blindWhat describes the measured load. Inline is a truth value, or words.
type blindWhat struct {
	Verb        string `yaml:"verb"`
	Transport   string `yaml:"transport"`
	Bytes       int    `yaml:"message_bytes"`
	QueuePairs  int    `yaml:"queue_pairs"`
	Threads     int    `yaml:"threads"`
	Machines    int    `yaml:"machines"`
	Outstanding int    `yaml:"outstanding_per_thread"`
	Depth       int    `yaml:"tx_depth"`
	MTU         int    `yaml:"mtu"`
	Inline      any    `yaml:"inline"`
	Operation   string `yaml:"operation"`
	Transfer    int    `yaml:"transfer_bytes"`
	Window      string `yaml:"window"`
	Cache       string `yaml:"cache"`
}

// blindRun is an entry of blindruns.yaml.
type blindRun struct {
	Rows   []string `yaml:"rows"`
	Source string   `yaml:"source"`
	// Collection is 3 for rows of the third collection, and 0 for those before it.
	Collection int    `yaml:"collection"`
	Conf       string `yaml:"conf"`
	Repeats    string `yaml:"repeats"`  // the older row and point
	Excluded   string `yaml:"excluded"` // the reason
	Seen       string `yaml:"seen"`     // why the rows are no longer blind
	Fit        string `yaml:"fit"`      // what was set from them
	Run        string `yaml:"run"`
	Link       struct {
		Rate    units.Rate     `yaml:"rate"`
		Framing fabric.Framing `yaml:"framing"`
		Hops    int            `yaml:"hops"` // switches; 0 is a cable
	} `yaml:"link"`
	PCIe    []string `yaml:"pcie"`
	MTU     int      `yaml:"mtu"`
	Threads int      `yaml:"threads"` // where the row does not say
	Window  int      `yaml:"window"`
	Signal  int      `yaml:"signal"`
	Both    bool     `yaml:"both"`
}

//go:embed blind.yaml
var blindYAML []byte

//go:embed blindruns.yaml
var blindRunsYAML []byte

// BlindRow is a blind row with its run, or with why it has none.
type BlindRow struct {
	row takenDown
	run blindRun
	// Status is Predicted or one of the others, which don't enter medians.
	Status BlindStatus
	Why    string // if it is not Predicted
}

// BlindStatus reports whether a blind row is run.
type BlindStatus string

// Statuses.
const (
	Predicted BlindStatus = "predicted"
	NoPreset  BlindStatus = "no preset"
	Excluded  BlindStatus = "excluded"
	Repeats   BlindStatus = "repeats"
)

// device is a NIC of which there is a preset, if it has a name, and the slot that the
// preset's PCIe is.
type device struct{ prefix, preset, slot string }

// blindDevices are keyed by the beginnings of the rows' device names; the first that fits
// holds. The model
// without Dx is another device than cx6dx.
var blindDevices = []device{
	{"ConnectX-3", "cx3", "3.0 x8"},
	{"Connect-IB", "connectib", "3.0 x16"},
	{"ConnectX-5", "cx5", "4.0 x16"},
	{"ConnectX-6 Dx", "cx6dx", "4.0 x16"},
	{"ConnectX-6", "cx6", "4.0 x16"},
	{"ConnectX-7", "cx7", "5.0 x16"},
	{"ConnectX-2", "", ""},
}

func (b *BlindRow) device() device {
	for _, d := range blindDevices {
		if strings.HasPrefix(b.row.Device, d.prefix) {
			return d
		}
	}
	return device{}
}

// BlindRows returns all blind rows, in the order in which they were taken down.
func BlindRows() []BlindRow {
	rows, err := parseBlind(blindYAML, blindRunsYAML)
	if err != nil {
		panic(err) // they are part of the program
	}
	return rows
}

func parseBlind(rowsText, runsText []byte) ([]BlindRow, error) {
	var rows []takenDown
	if err := yaml.Unmarshal(rowsText, &rows); err != nil {
		return nil, fmt.Errorf("blind.yaml: %w", err)
	}
	var runs []blindRun
	if err := yaml.UnmarshalWithOptions(runsText, &runs, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("blindruns.yaml: %w", err)
	}
	byID := map[string]blindRun{}
	for _, run := range runs {
		for _, id := range run.Rows {
			if _, taken := byID[id]; taken {
				return nil, fmt.Errorf("blindruns.yaml: %s has two runs", id)
			}
			byID[id] = run
		}
	}
	var all []BlindRow
	for _, row := range rows {
		run, ok := byID[row.ID]
		if !ok {
			return nil, fmt.Errorf("blindruns.yaml: %s, row %d of blind.yaml, has no run", row.ID, len(all)+1)
		}
		delete(byID, row.ID)
		b := BlindRow{row: row, run: run, Status: Predicted}
		if err := b.validate(); err != nil {
			return nil, fmt.Errorf("blind row %s: %w", row.ID, err)
		}
		switch {
		case run.Repeats != "":
			b.Status, b.Why = Repeats, run.Repeats
		case run.Excluded != "":
			b.Status, b.Why = Excluded, run.Excluded
		case row.Kind == "nic":
			if _, err := preset(b.device().preset); err != nil {
				b.Status, b.Why = NoPreset, cmp.Or(b.device().prefix, row.Device)
			}
		}
		all = append(all, b)
	}
	for id := range byID {
		return nil, fmt.Errorf("blindruns.yaml: %s is no row of blind.yaml", id)
	}
	return all, nil
}

func (b *BlindRow) validate() error {
	ways := 0
	for _, way := range []string{b.run.Repeats, b.run.Excluded, b.run.Run} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways != 1:
		return fmt.Errorf("give it one of run, repeats and excluded")
	case b.run.Source == "" || b.run.Conf != "A" && b.run.Conf != "B":
		return fmt.Errorf("give it a source, and conf A or B")
	case b.row.Kind != "nic" && b.row.Kind != "pcie":
		return fmt.Errorf("kind is %q: write nic or pcie", b.row.Kind)
	case b.row.Value <= 0:
		return fmt.Errorf("its value is %v: write a positive one", b.row.Value)
	}
	if _, err := b.unit(); err != nil {
		return err
	}
	if b.run.Run != "" && !slices.Contains([]string{"swarm", "stream", "rounds", "pingpong", "alone", "dma"}, b.run.Run) {
		return fmt.Errorf("run is %q: write swarm, stream, rounds, pingpong, alone or dma", b.run.Run)
	}
	return nil
}

// value is the published figure in the unit that the model's has.
func (b *BlindRow) value() float64 {
	if b.row.Converted.Unit != "" {
		return b.row.Converted.Value
	}
	return b.row.Value
}

func (b *BlindRow) unit() (string, error) {
	unit := cmp.Or(b.row.Converted.Unit, b.row.Unit)
	name, ok := map[string]string{"Mops": "M/s", "Gbps": "Gbps", "us": "us", "ns": "ns"}[unit]
	if !ok {
		return "", fmt.Errorf("its unit is %q: convert it to Gbps, Mops, us or ns", unit)
	}
	return name, nil
}

// published is the row as those of published.yaml are.
func (b *BlindRow) published() Row {
	unit, _ := b.unit() // parseBlind has looked
	r := Row{
		ID: b.row.ID, Source: b.run.Source, Confidence: b.run.Conf, Class: Blind, What: b.row.Quantity, Unit: unit,
		Points: []Point{{At: b.at(), Value: b.value()}},
	}
	if b.row.Kind == "pcie" {
		r.Of = "pcie"
	}
	switch {
	case b.run.Fit != "":
		r.Class = Fit
	case b.run.Seen != "":
		r.Class = Seen
	}
	return r
}

// at names the point by what was done.
func (b *BlindRow) at() string {
	w := &b.row.What
	if b.run.Run == "dma" {
		return b.dma()
	}
	at := fmt.Sprintf("%s %s %s", w.Transport, w.Verb, units.Bytes(w.Bytes))
	if w.QueuePairs > 1 {
		at += fmt.Sprintf(", %d queue pairs", w.QueuePairs)
	}
	return at
}

// dma names a test of a PCIe device as parsePB reads it.
func (b *BlindRow) dma() string {
	w := &b.row.What
	op := "read"
	if strings.Contains(w.Operation, "write") {
		op = "write"
	}
	at := fmt.Sprintf("%s %d B", op, w.Transfer)
	if w.Window != "" && w.Window != "8 KiB" {
		at += ", window " + w.Window
	}
	if strings.HasPrefix(w.Cache, "cold") {
		at += ", cold"
	}
	if strings.Contains(w.Operation, "other socket") {
		at += ", remote"
	}
	if strings.HasPrefix(b.row.Host.IOMMU, "on") {
		at += ", iommu"
	}
	return at
}

// slotRate returns the rate of a link of that generation and width by pcie-bench's model
// (row P2), and where that has none, as many lanes of its widest.
func slotRate(slot string) (units.Rate, error) {
	if slot == "3.0 x8" {
		return nfp6000().Rate, nil
	}
	var generation, lanes int
	if _, err := fmt.Sscanf(slot, "%d.0 x%d", &generation, &lanes); err != nil {
		return 0, fmt.Errorf("PCIe %q: write a generation and a width, such as 4.0 x8", slot)
	}
	wide, ok := map[int]units.Rate{3: 113_700 * units.Mbps, 4: 227_400 * units.Mbps, 5: 454_800 * units.Mbps}[generation]
	if !ok {
		return 0, fmt.Errorf("PCIe %q: its generation has no rate in row P2", slot)
	}
	return wide * units.Rate(lanes) / 16, nil
}

// nics are the client's and the server's.
func (b *BlindRow) nics() ([]nicmodel.Config, error) {
	d := b.device()
	slots := b.run.PCIe
	if len(slots) == 0 {
		slots = []string{b.row.Host.PCIe}
	}
	var all []nicmodel.Config
	for _, slot := range slots {
		c, err := preset(d.preset)
		if err != nil {
			return nil, err
		}
		c.Framing = b.run.Link.Framing
		if slot != d.slot {
			if c.PCIe.Rate, err = slotRate(slot); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// link is one of the row's links. What switches there are beyond one are in its delay.
func (b *BlindRow) link() fabric.Link {
	l := fabric.Link{Rate: b.run.Link.Rate, Delay: cable + correction(b.run.Link.Rate), Framing: b.run.Link.Framing}
	if more := b.run.Link.Hops - 1; more > 0 {
		l.Delay += units.Time(more) * (switchLatency + l.Delay) / 2
	}
	return l
}

func (b *BlindRow) mtu() ib.MTU {
	usual := 1024
	if b.run.Link.Framing == fabric.InfiniBand {
		usual = ibMTU
	}
	return ib.MTU(cmp.Or(b.row.What.MTU, b.run.MTU, usual))
}

func (b *BlindRow) inline() bool {
	words, _ := b.row.What.Inline.(string)
	said, _ := b.row.What.Inline.(bool)
	return said || strings.HasPrefix(words, "yes")
}

// figure takes the row's figure from the model.
func (b *BlindRow) figure() (float64, error) {
	w := &b.row.What
	if b.run.Run == "dma" {
		return b.dmaFigure()
	}
	cfgs, err := b.nics()
	if err != nil {
		return 0, err
	}
	op, ok := map[string]ib.WROpcode{
		"WRITE": ib.WRRDMAWrite, "READ": ib.WRRDMARead, "SEND": ib.WRSend, "FETCH_ADD": ib.WRAtomicFetchAndAdd, "CAS": ib.WRAtomicCmpAndSwp,
	}[w.Verb]
	service, known := map[string]ib.QPType{"RC": ib.RC, "UC": ib.UC}[w.Transport]
	if !ok || !known {
		return 0, fmt.Errorf("blind row %s: there is no way to measure %s %s", b.row.ID, w.Transport, w.Verb)
	}
	l := blindLoad{
		service: service, op: op, payload: w.Bytes, inline: b.inline(), machines: max(2, w.Machines),
		queues: w.QueuePairs, threads: max(1, w.Threads, b.run.Threads), window: cmp.Or(b.run.Window, w.Outstanding, w.Depth, perftestDepth),
		signal: max(1, b.run.Signal), both: b.run.Both, mtu: b.mtu(), direct: b.run.Link.Hops == 0, link: b.link(), nics: cfgs,
	}
	switch b.run.Run {
	case "pingpong":
		p := writePong
		if op == ib.WRSend {
			p = sendPong
		}
		return pingPong(cfgs[0], l.direct, l.link, p, w.Bytes, l.mtu)
	case "swarm":
		s := swarm{op: op, payload: w.Bytes, machines: w.Machines, threads: w.Threads, window: w.Outstanding, each: w.QueuePairs / (w.Machines * w.Threads), link: l.link}
		return s.runOn(cfgs[0])
	case "rounds":
		l.rounds = true
	case "alone":
		l.queues, l.window = 1, 1
	default:
		l.window = min(l.window, max(2, inFlight/(w.Bytes*w.QueuePairs)))
		l.signal = min(l.signal, l.window)
	}
	rate, err := l.run()
	unit, _ := b.unit() // parseBlind has looked
	switch {
	case err != nil:
		return 0, fmt.Errorf("blind row %s: %w", b.row.ID, err)
	case b.run.Run == "alone":
		return 1 / rate, nil
	case unit != "M/s":
		rate *= float64(w.Bytes) * 8 / 1000
	}
	return rate, nil
}

const (
	// perftestDepth is perftest's send queue.
	perftestDepth = 128
	// inFlight is the number of bytes a stream keeps under way at most: more only make the run longer.
	inFlight = 4 << 20
)

// dmaFigure is that of a PCIe device: pcie-bench's with its host's limits, or one of which
// only the link is known.
func (b *BlindRow) dmaFigure() (float64, error) {
	if !strings.Contains(b.row.Device, "NFP-6000") {
		rate, err := slotRate(b.row.Host.PCIe)
		if err != nil {
			return 0, err
		}
		c := nfp6000()
		c = nicmodel.PCIeConfig{
			Rate: rate, MPS: c.MPS, MRRS: c.MRRS, RCB: c.RCB, Headers: c.Headers, ReadLatency: c.ReadLatency, WriteLatency: c.WriteLatency,
		}
		p, err := nicmodel.NewPCIe(c)
		if err != nil {
			return 0, err
		}
		transfer := readOf
		if strings.Contains(b.row.What.Operation, "write") {
			transfer = writeOf
		}
		return sustained(p, b.row.What.Transfer, inTurn(b.row.What.Transfer), transfer), nil
	}
	c, err := parsePB(b.dma())
	if err != nil {
		return 0, err
	}
	c.mps, c.mrrs = b.row.Host.MPS, b.row.Host.MRRS
	if b.row.Unit == "ns" {
		return c.latency()
	}
	return c.throughput()
}

// blindRows returns the predicted measurements.
func blindRows() []Measurement {
	var all []Measurement
	for _, b := range BlindRows() {
		if b.Status != Predicted {
			continue
		}
		m := Measurement{Row: b.row.ID, Preset: b.device().preset, Figure: func(at string) (float64, error) {
			if at != b.at() {
				return 0, noPoint(at)
			}
			return b.figure()
		}}
		if b.row.Kind == "pcie" && strings.Contains(b.row.Device, "NFP-6000") {
			m.Preset = "nfp6000"
		}
		all = append(all, m)
	}
	return all
}
