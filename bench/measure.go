package bench

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// measurement observes a simulation: it has a clock of its own and changes
// nothing.
type measurement struct {
	sim     *simulation
	spec    *scenario.Measure
	warmup  units.Time
	warm    bool
	labels  []label // one a label, and behind them all flows together
	links   []link
	buffers []level // of measure.switches
	ports   []portBaseline
	// ofPriority has those in use if there are several.
	ofPriority [fabric.MaxPriorities]*priority
	framing    units.Bytes // of the links that lead to hosts
	progress   func(float64)
	// interrupted is nil if the run can't be interrupted.
	interrupted func() error
	log         *flowLog // nil if nobody asked
	bySize      *bySize  // nil if nobody asked
	fairness    *fairness
	// clockLooks is nil where no clock is calibrated.
	clockLooks *clockLooks
	ruling     ruling     // at the warm-up
	received   []received // by host
	nics       []nicLook  // the ones that the scenario inspects
	// At the end of the run: PFC's deadlocks, and flows that have not ended.
	circles    []fabric.Circle
	stuck      []fabric.PausedQueue
	unfinished *results.Unfinished

	shown      []int // labels that have series
	rate, wire *seriesTable
	rtt        *seriesTable
	underWay   *seriesTable
	jain       *seriesTable
	distance   *seriesTable
	queue      *seriesTable
	busy       *seriesTable
	buffer     *seriesTable
	rows       func(*results.SeriesRow) error // nil if nobody asked
	seriesRow  results.SeriesRow

	step       units.Time // between looks; divides sample and window
	sampleAt   units.Time
	windowAt   units.Time
	progressAt units.Time
	lastSample units.Time
}

// label sums up the flows of a label.
type label struct {
	name     string
	rtt, fct *stats.Recorder
	trips    []roundTrips    // by lane; rtt has all at the end
	slow     []*stats.Ratios // slowdowns by size bin
	started  uint64
	finished uint64
	gone     nicmodel.Delivered // of flows that have ended, from the warm-up on
	shares   []float64          // payload of each endless flow, from the warm-up on
	events   events
	stepped  nicmodel.Delivered // since the last sample
	running  int
	active   activity
	together collectives
	fairness labelFairness
}

// roundTrips holds a label's measurements by a lane of the network: lanes run side by
// side.
type roundTrips struct {
	sum   units.Time // since the last sample
	count int64      // of round trips
	rtt   *stats.Recorder
	_     [64]byte // two workers share no cache line
}

// sample returns the mean round trip since the last sample.
func (l *label) sample() stats.Float {
	var sum units.Time
	var count int64
	for i := range l.trips {
		t := &l.trips[i]
		sum, count = sum+t.sum, count+t.count
		t.sum, t.count = 0, 0
	}
	if count == 0 {
		return stats.Unmeasured
	}
	return stats.Float((sum / units.Time(count)).Microseconds())
}

// slowdownBins are the upper edges of the size bins.
var slowdownBins = []units.Bytes{10 * units.KB, 100 * units.KB, units.MB, 10 * units.MB, math.MaxInt64}

// link is a direction of a link that the scenario asks to measure.
type link struct {
	id      fabric.LinkID
	name    string
	rate    units.Rate
	base    fabric.PortStats // at the warm-up
	queue   level
	times   *occupancy // nil if another link is the same
	busyAt  units.Time // Busy at the last window
	busyMin float64
}

// portBaseline is a port at the end of the warm-up.
type portBaseline struct {
	stats    *fabric.PortStats // of ports that had done nothing, one for all
	queue    fabric.Integral
	queueMax units.Bytes // from then to the last reset of the fabric's
}

// newMeasurement observes a simulation of a scenario. It takes the options
// that say what becomes of what is measured as the run goes.
func newMeasurement(sim *simulation, s *scenario.Scenario, opt *Options) (*measurement, error) {
	m := &measurement{sim: sim, spec: &s.Measure, warmup: s.Warmup, progress: func(float64) {}, interrupted: opt.Interrupted, rows: opt.Series}
	m.log = newFlowLog(opt.Flows, s.Name, sim.sys.Name)
	m.seriesRow.Scenario, m.seriesRow.System = s.Name, sim.sys.Name
	topo := sim.net.Topology()
	m.framing = topo.Link(0).Framing.Bytes()
	for _, name := range append(slices.Clip(s.Labels()), "all") { // systems beside this one read the same list
		m.labels = append(m.labels, newLabel(name, sim.net.Lanes()))
	}
	m.newPriorities(s)
	for _, name := range m.spec.Links {
		id, err := topo.FindLink(name)
		if err != nil {
			return nil, err
		}
		l := link{id: id, name: name, rate: topo.Link(id).Rate, busyMin: math.Inf(1)}
		if !slices.ContainsFunc(m.links, func(o link) bool { return o.id == id }) {
			l.times = &occupancy{}
		}
		m.links = append(m.links, l)
	}
	m.buffers = make([]level, len(m.spec.Switches))
	m.newSeries(!opt.NoSeries)
	m.bySize = newBySize(m.spec.Sizes)
	m.ports = make([]portBaseline, topo.Links())
	idle := &fabric.PortStats{}
	for i := range m.ports {
		m.ports[i].stats = idle
	}
	m.fairness = m.newFairness()
	m.clockLooks = newClockLooks(sim.sys)
	for _, h := range s.MeasuredNICs() {
		m.nics = append(m.nics, nicLook{nic: sim.hosts[h].nic, name: sim.name(h)})
	}
	m.watchOperations()
	m.step = gcd(m.spec.Sample, m.spec.Window)
	if m.step == 0 {
		m.step = sim.duration / 100
	}
	m.step = max(m.step, units.Nanosecond)
	return m, nil
}

func gcd(a, b units.Time) units.Time {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// begin starts the clock.
func (m *measurement) begin() {
	m.sampleAt, m.windowAt = m.spec.Sample, m.spec.Window
	if m.warmup == 0 {
		m.warmUp()
	}
	m.schedule(0)
}

// schedule has the clock tick at the next step, or where the warm-up ends before.
func (m *measurement) schedule(now units.Time) {
	next := (now/m.step + 1) * m.step // the warm-up's end need not be on the grid
	if !m.warm {
		next = min(next, max(m.warmup, now+1))
	}
	if next <= m.sim.duration {
		m.sim.engine.Schedule(next, &m.sim.src, m.sim.id, evMeasure, 0)
	}
}

func (m *measurement) tick(now units.Time) {
	if m.interrupted != nil {
		if err := m.interrupted(); err != nil {
			m.sim.fail(err)
			return
		}
	}
	if !m.warm && now >= m.warmup {
		m.warmUp()
	}
	if m.spec.Sample > 0 && now >= m.sampleAt {
		m.sample(now)
		m.sampleAt += m.spec.Sample
	}
	if m.spec.Window > 0 && now >= m.windowAt {
		m.window(now)
		m.windowAt += m.spec.Window
	}
	if m.warm {
		m.clockLooks.look(m.sim.hosts, now)
	}
	if now >= m.progressAt {
		m.progress(float64(now) / float64(m.sim.duration))
		m.progressAt = now + m.sim.duration/200
	}
	m.schedule(now)
}

// warmUp begins the counting.
func (m *measurement) warmUp() {
	m.warm = true
	for i := range m.links {
		l := &m.links[i]
		p := m.sim.net.Port(l.id)
		l.base, l.queue.most = p.Stats(), p.MaxQueue()
		if l.times != nil {
			l.times.observe(m.sim.engine.Now(), p)
		}
	}
	for i := range m.ports {
		p := m.sim.net.Port(fabric.LinkID(i))
		p.ResetMaxQueue()
		m.ports[i].queue = p.QueueIntegral()
		if s := p.Stats(); s != (fabric.PortStats{}) {
			m.ports[i].stats = &s
		}
	}
	m.warmUpPriorities()
	for _, f := range m.sim.active {
		f.atWarmup, f.before = f.arrived(), f.events()
	}
	for i := range m.nics {
		m.nics[i].begin(m.sim.engine.Now())
	}
	m.everyLabel(func(l *label) { l.active.reset(m.sim.engine.Now()) })
	m.ruling = m.sim.ruling()
	m.received = m.sim.received()
}

// everyLabel calls do for every group of flows.
func (m *measurement) everyLabel(do func(*label)) {
	for i := range m.labels {
		do(&m.labels[i])
	}
	for _, p := range m.ofPriority {
		if p != nil {
			do(&p.flows)
		}
	}
}

func newLabel(name string, lanes int) label {
	l := label{name: name, rtt: stats.NewRecorder(), trips: make([]roundTrips, lanes), fct: stats.NewRecorder(), slow: make([]*stats.Ratios, len(slowdownBins))}
	l.trips[0].rtt = l.rtt
	for i := range l.trips[1:] {
		l.trips[1+i].rtt = stats.NewRecorder()
	}
	return l
}

// groups calls do for the groups that a flow belongs to: those of its label, of its
// priority, and all flows together.
func (m *measurement) groups(f *flow, do func(*label)) { m.groupsOf(f.Label, f.Class, do) }

func (m *measurement) groupsOf(number, class int, do func(*label)) {
	do(&m.labels[number])
	do(&m.labels[len(m.labels)-1])
	if p := m.class(class); p != nil {
		do(&p.flows)
	}
}

// completed records how long a flow or task took, and how many times as long as on
// an idle network, if that is known: ideal is not 0.
func (m *measurement) completed(number, class int, size units.Bytes, fct, ideal units.Time) {
	m.bySize.record(size, fct)
	bin := 0
	for size > slowdownBins[bin] {
		bin++
	}
	m.groupsOf(number, class, func(l *label) {
		l.finished++
		l.fct.Record(fct)
		if ideal == 0 {
			return
		}
		if l.slow[bin] == nil {
			l.slow[bin] = stats.NewRatios()
		}
		l.slow[bin].Record(float64(fct) / float64(ideal))
	})
}

func (m *measurement) started(f *flow) {
	f.startedInWindow, f.tally.started = m.warm, true
	m.begins(f.Label, f.Class, m.sim.engine.Now())
	m.groups(f, func(l *label) {
		l.running++
		if m.warm {
			l.started++
		}
	})
}

// roundTrip takes a round trip, from the lane that runs the flow's source.
func (m *measurement) roundTrip(lane int, f *flow, rtt units.Time) {
	f.tally.roundTrip(rtt)
	m.groups(f, func(l *label) {
		t := &l.trips[lane]
		t.sum += rtt
		t.count++
		if m.warm {
			t.rtt.Record(rtt)
		}
	})
}

// look updates the delivered bytes of a flow.
func (m *measurement) look(f *flow) {
	d := f.arrived()
	more := subtract(d, f.delivered)
	f.delivered = d
	m.groups(f, func(l *label) { add(&l.stepped, more) })
}

// settle takes leave of a flow's counters, at its end or at the run's.
func (m *measurement) settle(f *flow) {
	m.look(f)
	since := subtract(f.delivered, f.atWarmup)
	f.tally.events = f.events()
	m.groups(f, func(l *label) {
		l.running--
		if m.warm {
			add(&l.gone, since)
			l.events.addSince(f.tally.events, f.before)
		}
		if f.Size == 0 && m.warm && f.kept.shares() {
			l.shares = append(l.shares, float64(since.Payload))
		}
	})
}

func (m *measurement) ended(f *flow, now units.Time) {
	m.settle(f)
	if f.kept == nil {
		m.ends(f.Label, f.Class, now)
	}
	if err := f.audit(true); err != nil {
		m.sim.fail(err)
	}
	m.record(f, now, true)
	if !f.startedInWindow || f.Size == 0 {
		return
	}
	m.completed(f.Label, f.Class, f.Size, now-f.Start, m.sim.idealFCT(&f.Flow))
}

func subtract(a, b nicmodel.Delivered) nicmodel.Delivered {
	return nicmodel.Delivered{Payload: a.Payload - b.Payload, Frames: a.Frames - b.Frames, Packets: a.Packets - b.Packets}
}

func add(a *nicmodel.Delivered, b nicmodel.Delivered) {
	a.Payload += b.Payload
	a.Frames += b.Frames
	a.Packets += b.Packets
}

// wireBytes returns the bytes that delivered data took on the wire.
func (m *measurement) wireBytes(d nicmodel.Delivered) units.Bytes {
	return d.Frames + units.Bytes(d.Packets)*m.framing
}

// sample adds a point to every series.
func (m *measurement) sample(now units.Time) {
	for _, f := range m.sim.active {
		m.look(f)
	}
	span := now - m.lastSample
	m.lastSample = now
	for at, i := range m.shown {
		l := &m.labels[i]
		m.rate.row[at], m.wire.row[at] = gbps(l.stepped.Payload, span), gbps(m.wireBytes(l.stepped), span)
		m.rtt.row[at], m.underWay.row[at] = l.sample(), stats.Float(l.running)
		l.stepped = nicmodel.Delivered{}
	}
	for i := range m.links {
		l := &m.links[i]
		p := m.sim.net.Port(l.id)
		m.queue.row[i], m.queue.max[i] = l.queue.sample(p.QueueIntegral(), p.MaxQueue(), span)
		if m.warm {
			m.ports[l.id].queueMax = max(m.ports[l.id].queueMax, p.MaxQueue())
		}
	}
	for i, name := range m.spec.Switches {
		b, err := m.sim.net.Buffer(name)
		if err != nil {
			m.sim.fail(err)
		}
		m.buffer.row[i], m.buffer.max[i] = m.buffers[i].sample(b.UsedIntegral, b.MaxUsed, span)
	}
	m.resetMax()
	for _, t := range []*seriesTable{m.rate, m.wire, m.rtt, m.underWay, m.queue, m.buffer} {
		m.endRow(t, now)
	}
}

// resetMax begins the next step of the series: a link or switch may be named twice, so that
// all are read before.
func (m *measurement) resetMax() {
	for i := range m.links {
		m.sim.net.Port(m.links[i].id).ResetMaxQueue()
	}
	for _, name := range m.spec.Switches {
		if err := m.sim.net.ResetMaxBuffer(name); err != nil {
			m.sim.fail(err)
		}
	}
}

// level is a changing amount: the bytes of a queue, or of a buffer's used part.
type level struct {
	before fabric.Integral // at the last sample
	most   units.Bytes     // from then to the end of the warm-up, if that lies in the step
}

// sample returns the mean and the most of the step that ends now, and begins the next.
func (l *level) sample(sum fabric.Integral, most units.Bytes, span units.Time) (mean, largest stats.Float) {
	mean, largest = stats.Float(sum.Sub(l.before).Over(span)), stats.Float(max(l.most, most))
	l.before, l.most = sum, 0
	return mean, largest
}

// longestQueue is the longest that the queue of a link was, from the warm-up on.
func (m *measurement) longestQueue(id fabric.LinkID) int64 {
	return int64(max(m.ports[id].queueMax, m.sim.net.Port(id).MaxQueue()))
}

// meanQueue is the mean queue of a link over the span from the warm-up to now.
func (m *measurement) meanQueue(id fabric.LinkID, span units.Time) stats.Float {
	return meanOver(m.sim.net.Port(id).QueueIntegral().Sub(m.ports[id].queue), span)
}

// larger is the larger of two figures; a is stats.Unmeasured at first.
func larger(a, b stats.Float) stats.Float {
	if !a.Measured() || b > a {
		return b
	}
	return a
}

func meanOver(sum fabric.Integral, span units.Time) stats.Float {
	if span <= 0 {
		return stats.Unmeasured
	}
	return stats.Float(sum.Over(span))
}

// window takes the busy share of the links, and how fairly they were shared, over the window that ends now.
func (m *measurement) window(now units.Time) {
	if err := m.fairShares(now); err != nil {
		m.sim.fail(err)
	}
	for i := range m.links {
		l := &m.links[i]
		busy := m.sim.net.Port(l.id).Stats().Busy
		share := float64(busy-l.busyAt) / float64(m.spec.Window)
		l.busyAt = busy
		m.busy.row[i] = stats.Float(min(share, 1))
		if m.warm && now-m.spec.Window >= m.warmup {
			l.busyMin = min(l.busyMin, share)
		}
	}
	for _, t := range []*seriesTable{m.jain, m.distance, m.busy} {
		m.endRow(t, now)
	}
}

func gbps(n units.Bytes, span units.Time) stats.Float {
	if span <= 0 {
		return stats.Unmeasured
	}
	return stats.Float(float64(n) * 8 / float64(span) * 1000)
}

// finish closes the account of the flows that are still under way.
func (m *measurement) finish() {
	m.progress(1)
	m.everyLabel(func(l *label) {
		for i := range l.trips[1:] {
			l.rtt.Merge(l.trips[1+i].rtt)
		}
	})
	m.circles, m.stuck = m.sim.net.Deadlocks()
	m.unfinished = m.leftOver()
	for _, f := range m.sim.active {
		m.settle(f)
		m.record(f, m.sim.end, false)
		if err := f.audit(false); err != nil {
			m.sim.fail(err)
		}
	}
	if err := m.sim.programs.err(); err != nil {
		m.sim.fail(err)
	}
	if err := m.sim.audit(); err != nil {
		m.sim.fail(err)
	}
}

// record puts a flow into the flow log.
func (m *measurement) record(f *flow, now units.Time, ended bool) {
	if m.log == nil {
		return
	}
	if err := m.log.flow(m, f, now, ended); err != nil {
		m.sim.fail(fmt.Errorf("flow log: %w", err))
	}
}

// report writes what was measured into out.
func (m *measurement) report(out *results.System) {
	span := m.sim.end - m.warmup
	all := &m.labels[len(m.labels)-1]
	out.Flows = m.flows(all, span)
	if len(m.labels) > 2 {
		for i := range m.labels[:len(m.labels)-1] {
			l := &m.labels[i]
			out.Labels = append(out.Labels, results.Label{Label: l.name, Flows: m.flows(l, span)})
		}
	}
	out.Priorities = m.priorities(span)
	out.Network = m.network(span)
	out.Clocks = m.clocks()
	out.LinkUse = m.linkUse()
	m.rules(out)
	for i := range m.nics {
		out.NICs = append(out.NICs, m.nics[i].use(m.sim.end, m.sim.name))
	}
	results.Explain(out.NICs)
	for i := range m.links {
		out.Links = append(out.Links, m.link(&m.links[i], span))
	}
	m.series(out)
	for i := range m.labels {
		l := &m.labels[i]
		if i < len(m.labels)-1 && len(m.labels) == 2 {
			continue // the same flows as all
		}
		for _, d := range []stats.Distribution{l.rtt.Distribution("rtt", l.name), l.fct.Distribution("fct", l.name)} {
			if len(d.Values) > 0 {
				out.Distributions = append(out.Distributions, d)
			}
		}
	}
	out.Distributions = append(out.Distributions, m.bySize.distributions()...)
	for i := range m.links {
		if l := &m.links[i]; l.times != nil {
			if d := l.times.distribution(m.sim.end, l.name); len(d.Values) > 0 {
				out.Distributions = append(out.Distributions, d)
			}
		}
	}
}

func (m *measurement) flows(l *label, span units.Time) results.Flows {
	f := results.NewFlows()
	f.FlowsStarted, f.FlowsDone = l.started, l.finished
	f.Bytes = int64(l.gone.Payload)
	f.ThroughputGbps = gbps(l.gone.Payload, span)
	f.WireGbps = gbps(m.wireBytes(l.gone), span)
	active := l.active.total(m.sim.end)
	f.ActiveUs, f.GoodputGbps = stats.Float(active.Microseconds()), gbps(l.gone.Payload, active)
	f.AlgBW, f.BusBW = l.together.bandwidths()
	f.RTTSamples = l.rtt.Count()
	f.RTTAvgUs, f.RTTP50Us, f.RTTP99Us = l.rtt.MeanUs(), l.rtt.PercentileUs(50), l.rtt.PercentileUs(99)
	f.RTTP1Us = l.rtt.PercentileUs(1)
	f.RTTSpreadUs = f.RTTP99Us - f.RTTP1Us
	f.FCTAvgUs, f.FCTP50Us, f.FCTP99Us = l.fct.MeanUs(), l.fct.PercentileUs(50), l.fct.PercentileUs(99)
	f.Jain = stats.Jain(l.shares)
	f.JainWindow, f.MaxMinDistance = l.fairness.means()
	from := units.Bytes(0)
	for i, r := range l.slow {
		if r != nil {
			to := slowdownBins[i]
			f.Slowdown = append(f.Slowdown, results.SlowdownBin{
				FromBytes: int64(from), ToBytes: int64(to), Flows: r.Count(), P50: r.Percentile(50), P95: r.Percentile(95), P99: r.Percentile(99),
			})
		}
		from = slowdownBins[i]
	}
	e := &l.events
	f.Retransmissions, f.Timeouts, f.AdpRetrans, f.CNPs = e.retrans, e.timeouts, e.adaptive, e.cnps
	f.SlowRestarts, f.SlowRestartTrans = e.restarts.Used, e.restarts.Trans
	return f
}

func (m *measurement) network(span units.Time) results.Network {
	n := results.NewNetwork()
	var paused units.Time
	for i := range m.ports {
		id, b := fabric.LinkID(i), &m.ports[i]
		s := m.sim.net.Port(id).Stats()
		n.Drops += s.Drops + s.Lost - b.stats.Drops - b.stats.Lost
		n.ECNMarks += s.Marks - b.stats.Marks
		n.EINMarks += s.EINMarks - b.stats.EINMarks
		n.WatchdogTrips += s.WatchdogTrips - b.stats.WatchdogTrips
		n.WatchdogDrops += s.WatchdogDrops - b.stats.WatchdogDrops
		n.PauseFrames += s.PauseFrames - b.stats.PauseFrames
		for p := range s.Paused {
			paused += s.Paused[p] - b.stats.Paused[p]
		}
		n.QueueMaxBytes = max(n.QueueMaxBytes, m.longestQueue(id))
		n.QueueAvgBytes = larger(n.QueueAvgBytes, m.meanQueue(id, span))
	}
	n.PauseUs = stats.Float(paused.Microseconds())
	for i, b := range m.sim.received() {
		n.NICDrops += b.drops - m.received[i].drops
		n.NICMarks += b.marks - m.received[i].marks
	}
	return n
}

func (m *measurement) link(l *link, span units.Time) results.Link {
	s := m.sim.net.Port(l.id).Stats()
	out := results.Link{
		Link: l.name, RateGbps: stats.Float(l.rate.Gbps()), Busy: stats.Unmeasured, BusyMinimum: stats.Unmeasured, QueueAvgBytes: m.meanQueue(l.id, span),
		QueueMaxBytes: m.longestQueue(l.id),
		Drops:         s.Drops + s.Lost - l.base.Drops - l.base.Lost,
		ECNMarks:      s.Marks - l.base.Marks,
		EINMarks:      s.EINMarks - l.base.EINMarks,
		WatchdogTrips: s.WatchdogTrips - l.base.WatchdogTrips,
		WatchdogDrops: s.WatchdogDrops - l.base.WatchdogDrops,
	}
	frames := s.TxBytes - l.base.TxBytes
	framing := m.sim.net.Topology().Link(l.id).Framing.Bytes()
	out.WireGbps = gbps(frames+units.Bytes(s.TxPackets-l.base.TxPackets)*framing, span)
	if span > 0 {
		out.Busy = stats.Float(min(float64(s.Busy-l.base.Busy)/float64(span), 1))
	}
	if !math.IsInf(l.busyMin, 1) {
		out.BusyMinimum = stats.Float(min(l.busyMin, 1))
	}
	var paused units.Time
	for p := range s.Paused {
		paused += s.Paused[p] - l.base.Paused[p]
	}
	out.PauseUs = stats.Float(paused.Microseconds())
	return out
}
