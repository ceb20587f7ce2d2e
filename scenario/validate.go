package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// resolve completes a decoded scenario (the systems' configurations, the graph,
// the workloads' plans) and checks it.
func (s *Scenario) resolve(d *tree.Document, memory units.Bytes) {
	s.Description = strings.TrimSpace(s.Description)
	switch {
	case s.Duration <= 0 || s.Duration > 1000*units.Second:
		d.Fail("duration", "is %v: choose a span above 0 and up to 1000s", s.Duration)
	case s.Warmup < 0 || s.Warmup >= s.Duration:
		d.Fail("warmup", "is %v: choose a span from 0 to below the duration, %v", s.Warmup, s.Duration)
	}
	s.Measure.check(d, s.Duration)
	errs := len(d.Errs)
	if s.checkMemory(d, memory); len(d.Errs) > errs {
		return
	}
	if s.graph = s.Topology.validate(d); s.graph != nil {
		if len(s.Programs) > 0 {
			s.checkPrograms(d)
			s.plans = &workload.Plans{}
		} else {
			s.plans = workload.Check(d, s.Workloads, s.graph)
		}
		s.nics = s.Measure.NIC.In(s.graph, d, "measure.nic")
		for i, link := range s.Measure.Links {
			if _, err := s.graph.FindLink(link); err != nil {
				d.Fail(fmt.Sprintf("measure.links[%d]", i), "%v", err)
			}
		}
		for i, name := range s.Measure.Switches {
			if known := s.graph.SwitchNames(); !slices.Contains(known, name) {
				d.Fail(fmt.Sprintf("measure.switches[%d]", i), "there is no switch %q: there are %s", name, few(known))
			}
		}
	}
	s.resolveSystems(d)
	s.checkExpectations(d)
}

// maxSamples bounds the points of a series.
const maxSamples = 1_000_000

func (m *Measure) check(d *tree.Document, duration units.Time) {
	errs := d.Check("measure", m)
	for _, span := range []struct {
		key string
		v   units.Time
	}{{"sample", m.Sample}, {"window", m.Window}} {
		if span.v > 0 && duration/span.v > maxSamples {
			d.Fail("measure."+span.key, "is %v: that makes more than %d points in %v; choose a longer span", span.v, maxSamples, duration)
		}
	}
	for i, size := range m.Sizes {
		if i > 0 && size <= m.Sizes[i-1] {
			d.Fail(fmt.Sprintf("measure.sizes[%d]", i), "is %v: choose sizes above 0, each above the one before", size)
		}
	}
	if len(d.Errs) == errs && m.Sample > 0 && m.Sample%m.Window != 0 && m.Window%m.Sample != 0 {
		d.Fail("measure.window", "is %v and sample %v: make one a multiple of the other", m.Window, m.Sample)
	}
}

func (s *Scenario) resolveSystems(d *tree.Document) {
	if len(s.Systems) == 0 {
		d.Fail("systems", "there are none: list at least one, such as - {engine: timely}")
	}
	names, errs, functions := map[string]bool{}, len(d.Errs), 1
	for i, sys := range s.Systems {
		path := fmt.Sprintf("systems[%d]", i)
		sys.resolve(d, path, s)
		if names[sys.Name] {
			d.Fail(path+".name", "two systems are called %q: give each a name of its own", sys.Name)
		}
		names[sys.Name] = true
		if sys.nic != nil {
			functions = max(functions, len(sys.nic.Functions))
		}
	}
	for i, w := range s.Workloads {
		if len(d.Errs) == errs && (w.Function < 0 || w.Function >= functions) {
			d.Fail(fmt.Sprintf("workloads[%d].function", i), "is %d, and no system's NICs have more than %d: list functions at nic.with.functions", w.Function, functions)
		}
	}
}

func (sys *System) resolve(d *tree.Document, path string, s *Scenario) {
	sys.Fabric, sys.NIC, sys.Shim, sys.Host, sys.Verbs = s.Fabric, s.NIC.clone(), s.Shim, s.Host, s.Verbs
	for _, w := range s.Workloads {
		if w.Priority != nil {
			sys.priority = max(sys.priority, min(*w.Priority, fabric.MaxPriorities-1))
		}
	}
	if !sys.readEngine(d, path) {
		return
	}
	errs := len(d.Errs)
	if v, ok := sys.EngineConfig.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			failEngine(d, path+".config", sys.Engine, err)
		}
	}
	if len(d.Errs) == errs {
		sys.checkEngine(d, path+".config", s)
	}
	if n := sys.Scheme.Classes; n > 0 && !d.Given("nic.ack_priority") && !d.Given(path+".override.nic.ack_priority") {
		sys.NIC.AckPriority = n - 1
	}
	// What the whole scenario says is wrong once, not once a system.
	within(d, "", path+".override", func(at func(key string) string) {
		errs := len(d.Errs)
		sys.checkNIC(d, at)
		if sys.Reduced() {
			sys.checkReduced(d, at, s)
		} else {
			sys.checkPorts(d, at, s)
			sys.checkFunctions(d, s)
			sys.checkSendTimes(d, path, s)
		}
		if len(s.Programs) > 0 {
			sys.checkForPrograms(d, path, at)
		}
		failSettings(d, at, "shim", ofShim.CheckAll(&sys.Shim))
		sys.checkHost(d, at)
		sys.checkVerbs(d, at)
		sys.checkFabric(d, at, s.graph)
		if len(d.Errs) == errs {
			sys.checkNetwork(d, at, s.graph)
		}
	})
	sys.checkNeeds(d, path+".engine", s.graph)
}

// readEngine finds the engine, and reads its configuration and the override.
func (sys *System) readEngine(d *tree.Document, path string) bool {
	errs := len(d.Errs)
	if sys.Engine == "" {
		d.Fail(path+".engine", "it is missing: name one of %s", strings.Join(engineNames(), ", "))
		return false
	}
	if sys.Name == "" {
		sys.Name = sys.Engine
	}
	var err error
	if sys.Scheme, err = cc.Lookup(sys.Engine); err != nil {
		d.Fail(path+".engine", "%v", err)
		return false
	}
	if sys.EngineConfig, err = sys.Scheme.ConfigOf(sys.Set); err != nil {
		d.Fail(path+".set", "%v", err)
		return false
	}
	if sys.Config.n != nil {
		d.Decode(sys.Config.n, path+".config", sys.EngineConfig)
	}
	if sys.Override.n != nil {
		d.Decode(sys.Override.n, path+".override", &override{&sys.Fabric, &sys.NIC, &sys.Shim, &sys.Host, &sys.Verbs})
	}
	return len(d.Errs) == errs
}

// grouped reports whether queue pairs share engines.
func (s *Shim) grouped() bool { return s.Group != nil && *s.Group != "none" }

// checkNeeds notes what the engine lives on and does not get. g is nil if it is at fault itself.
func (sys *System) checkNeeds(d *tree.Document, path string, g *fabric.Topology) {
	x, own := &sys.Scheme, sys.Fabric.class(sys.NIC.Priority)
	for _, need := range []struct {
		lacks bool
		says  string
	}{
		{!sys.Reduced() && (x.NewReceiver != nil || x.Classes > 0), "needs receivers that grant or priorities of its own, which staged NICs do not have: set nic: {model: reduced}"},
		{(x.ECN || x.CNP && !x.Card) && own.ECN.Kmax == 0, "lives on congestion marks, which switches set nowhere: give fabric.ecn.kmin and kmax"},
		{x.EIN && own.EIN.Gradient == 0, "lives on incast notifications, which switches set nowhere: give fabric.ein.gradient, such as 0.25, and high_water"},
		{x.Circuit && g != nil && !hasCircuits(g), "lives on circuits that come and go, and the network has none: set topology.kind to rdcn"},
		{sys.needsSwitches() && !sys.Offload(), "needs what switches report on each packet, which a host does not see: set nic.mode to offload or auto"},
		{sys.Shim.grouped() && sys.Offload(), "runs in the NIC, which has no groups: set nic.mode to host, or shim.group to none"},
	} {
		if need.lacks {
			d.Fail(path, "%s %s", sys.Engine, need.says)
		}
	}
}

// override is the keys of System.Override.
type override struct {
	Fabric *Fabric `yaml:"fabric"`
	NIC    *NIC    `yaml:"nic"`
	Shim   *Shim   `yaml:"shim"`
	Host   *Host   `yaml:"host"`
	Verbs  *Verbs  `yaml:"verbs"`
}

// within runs check with a function that says where a key of fabric, NIC, shim, host or
// verbs was given: in the override, or else for all systems. A fault of the latter
// kind is noted once, and so is one that several priorities or switches have from there.
func within(d *tree.Document, all, one string, check func(at func(key string) string)) {
	before := len(d.Errs)
	check(func(key string) string {
		if p := tree.Join(one, key); d.Given(p) {
			return p
		}
		return tree.Join(all, key)
	})
	seen := map[string]bool{}
	kept := d.Errs[:before]
	for _, e := range d.Errs[:before] {
		seen[e.Error()] = true
	}
	for _, e := range d.Errs[before:] {
		if !seen[e.Error()] {
			kept = append(kept, e)
		}
		seen[e.Error()] = true
	}
	d.Errs = kept
}

// checkEngine makes the engine as each host will: what it refuses, or can't do at
// the hosts' rates, is found before anything runs. The round trip is not known yet;
// engines take any above zero.
func (sys *System) checkEngine(d *tree.Document, path string, s *Scenario) {
	if sys.NIC.MTU <= 0 || s.graph == nil {
		return
	}
	for _, line := range hostRates(s.graph) {
		e, err := sys.NewEngine(cc.Env{LineRate: line, BaseRTT: 10 * units.Microsecond, MTU: sys.NIC.MTU})
		if err != nil {
			failEngine(d, path, sys.Engine, err)
			return
		}
		if _, sys.pathed = e.(cc.Pathed); sys.pathed && !sys.Offload() {
			d.Fail(path, "this %s chooses paths, by a port that a host does not set: set nic.mode to offload", sys.Engine)
			return
		}
	}
}

// hostRates returns the rates that the hosts' links have, each once.
func hostRates(g *fabric.Topology) []units.Rate {
	rates := make([]units.Rate, g.Hosts())
	for h := range rates {
		rates[h] = g.Link(g.HostLink(h)).Rate
	}
	slices.Sort(rates)
	return slices.Compact(rates)
}

// failEngine points at the keys that an engine complains of.
func failEngine(d *tree.Document, path, engine string, err error) {
	failFields(d, err, func(key string) string { return path + "." + key }, path)
}

// failFields points at the fields of a configuration that are at fault: at where they were
// given, or else, as all that is no field's fault, at whole.
func failFields(d *tree.Document, err error, path func(key string) string, whole string) {
	fields, rest := field.Errors(err)
	for _, f := range fields {
		if at := path(f.Key); d.Given(at) {
			d.Fail(at, "%s", f.Fault())
		} else {
			d.Fail(whole, "%s %s", f.Key, f.Fault())
		}
	}
	if rest != nil {
		d.Fail(whole, "%v", rest)
	}
}

var (
	ofNIC    = field.Of[NIC]("nic")
	ofShim   = field.Of[Shim]("shim")
	ofVerbs  = field.Of[Verbs]("verbs")
	ofFabric = field.Of[Fabric]("fabric")
)

// failSettings points at the settings of a section that are out of their ranges.
func failSettings(d *tree.Document, at func(string) string, section string, err error) {
	failFields(d, err, func(key string) string { return at(section + "." + key) }, at(section))
}

func (sys *System) checkNIC(d *tree.Document, at func(string) string) {
	n := &sys.NIC
	c, err := nicmodel.Preset(n.Preset)
	if err != nil {
		d.Fail(at("nic.preset"), "%v", err)
	}
	if !sys.Scheme.Card { // the engines' papers have no such timers, and no such NAKs
		c.Transport.AdpRetrans.Enabled, c.Transport.NAKTime = false, 0
	}
	if n.Host != "" {
		h, err := nicmodel.HostOf(n.Host)
		if err != nil {
			d.Fail(at("nic.host"), "%v", err)
			return
		}
		c.PCIe.OnHost(h)
	}
	if err == nil && n.With.check(d, at, &c) {
		sys.nic = &c
	}
	failSettings(d, at, "nic", ofNIC.CheckAll(n))
	for i := range sys.Fabric.Failures {
		if f := &sys.Fabric.Failures[i]; f.OfNIC() {
			f.checkOf(d, at, fmt.Sprintf("fabric.failures[%d]", i), sys)
		}
	}
	if !sys.Reduced() {
		if m := n.MTU; ofNIC.Holds(n, "mtu") && !ib.MTU(m).Valid() {
			d.Fail(at("nic.mtu"), "is %d, no path MTU of InfiniBand: choose 256, 512, 1024, 2048 or 4096, or set nic.model to reduced", m)
		}
		for _, x := range n.latencies() {
			if *x.v != nil {
				d.Fail(at(x.key), "the staged NIC has the latencies of its preset: leave it out, or set nic.model to reduced")
			}
		}
	}
	if err == nil && !sys.Reduced() {
		if n.SendDepth > c.MaxQPWR {
			d.Fail(at("nic.send_depth"), "is %d: the NIC's max_qp_wr is %d", n.SendDepth, c.MaxQPWR)
		}
		if n.MaxRdAtomic > c.MaxRdAtomic {
			d.Fail(at("nic.max_rd_atomic"), "is %d: the NIC's own is %d", n.MaxRdAtomic, c.MaxRdAtomic)
		}
	}
}

// clone returns a copy that an override can be decoded into.
func (n NIC) clone() NIC {
	for _, x := range n.latencies() {
		if *x.v != nil {
			v := **x.v
			*x.v = &v
		}
	}
	return n
}

// latency is a key of a NIC that gives one.
type latency struct {
	key string
	v   **units.Time
}

func (n *NIC) latencies() []latency {
	return []latency{{"nic.host_send", &n.HostSend}, {"nic.host_receive", &n.HostReceive}, {"nic.completion", &n.Completion}, {"nic.host_start", &n.HostStart}}
}

// checkPorts refuses NICs of two ports where hosts do not make pairs.
func (sys *System) checkPorts(d *tree.Document, at func(string) string, s *Scenario) {
	switch {
	case sys.NIC.Ports != 2:
	case s.graph != nil && s.graph.Hosts()%2 != 0:
		d.Fail(at("nic.ports"), "is 2, and the network has %d hosts: each two are the ports of one NIC; add or leave out a host", s.graph.Hosts())
	case len(s.Programs) > 0:
		d.Fail(at("nic.ports"), "is 2, and programs have NICs of one port: choose 1")
	}
}

// checkFunctions refuses workloads of functions that the NICs do not have. Of a system whose NICs have no
// list of them, all workloads share the only one.
func (sys *System) checkFunctions(d *tree.Document, s *Scenario) {
	if sys.nic == nil || len(sys.nic.Functions) == 0 {
		return
	}
	for i, w := range s.Workloads {
		if most := len(sys.nic.Functions); w.Function >= most {
			d.Fail(fmt.Sprintf("workloads[%d].function", i), "is %d: nic.with.functions has %d; choose 0 to %d, or add to them", w.Function, most, most-1)
		}
	}
}

// checkSendTimes refuses workloads whose send times do not reach the NIC.
func (sys *System) checkSendTimes(d *tree.Document, path string, s *Scenario) {
	for i, w := range s.Workloads {
		at := fmt.Sprintf("workloads[%d].every", i)
		switch {
		case w.Every == 0:
		case s.plans.KeepsConnections(i):
			d.Fail(at, "only flows have send times, and a workload of kind %s keeps connections: choose another kind", w.Kind)
		case sys.nic != nil && sys.nic.SendTime.Tick == 0:
			d.Fail(at, "the NICs of %s do not schedule by time: choose nic.preset cx6dx or cx7, or set nic.with.send_time.tick", path)
		case !sys.Offload():
			d.Fail(at, "the shim of %s makes segments of messages, which have no send times: set nic.mode to offload", path)
		case sys.Verbs.PostList > 1:
			d.Fail(at, "%s posts %d messages with one doorbell, and each needs a send time: set verbs.post_list to 1", path, sys.Verbs.PostList)
		}
	}
}

// checkReduced refuses what reduced NICs can't do.
func (sys *System) checkReduced(d *tree.Document, at func(string) string, s *Scenario) {
	n := &sys.NIC
	if n.Mode == ModeHost {
		d.Fail(at("nic.mode"), "reduced NICs run the engine themselves: choose auto or offload, or set nic.model to staged")
	}
	if n.Ports != 1 {
		d.Fail(at("nic.ports"), "reduced NICs have one port: choose 1, or set nic.model to staged")
	}
	if len(s.nics) > 0 {
		d.Fail("measure.nic", "reduced NICs have no stages to look into: leave it out, or set nic.model to staged")
	}
	for i, w := range s.Workloads {
		path := fmt.Sprintf("workloads[%d]", i)
		st, isStorage := w.Pattern.(*workload.Storage)
		switch reads := w.Operation == workload.Read || isStorage && st.Reads > 0; {
		case w.Operation == workload.Send:
			d.Fail(path+".operation", "is send: reduced NICs have Writes and READs; choose write or read, or set nic.model to staged")
		case reads && !sys.Carries(workload.Read) && isStorage:
			d.Fail(path+".reads", "is %v, and the receivers of %s grant Writes only: set it to 0, or take another engine", st.Reads, sys.Engine)
		case reads && !sys.Carries(workload.Read):
			d.Fail(path+".operation", "is read, and the receivers of %s grant Writes only: choose write, or take another engine", sys.Engine)
		}
		if w.Every != 0 {
			d.Fail(path+".every", "reduced NICs have no send times: leave it out, or set nic.model to staged")
		}
		if w.Priority != nil && *w.Priority != n.Priority && sys.Scheme.Classes > 0 {
			d.Fail(path+".priority", "is %d, and %s chooses priorities itself: leave it out, or take another engine", *w.Priority, sys.Engine)
		}
	}
}

// checkFabric holds the fabric against its own ranges, which package fabric knows, and
// against the network.
func (sys *System) checkFabric(d *tree.Document, at func(string) string, g *fabric.Topology) {
	f := &sys.Fabric
	c := sys.FabricConfig()
	c.Priorities = fabric.MaxPriorities // also ones that nothing uses
	c.HostSend, c.HostReceive = 0, 0    // the NIC's
	fields, rest := field.Errors(c.Validate())
	for _, e := range fields {
		f.fail(d, at, &sys.NIC, e)
	}
	if rest != nil {
		d.Fail(at("fabric"), "%v", rest)
	}
	failSettings(d, at, "fabric", ofFabric.CheckAll(f))
	f.checkCircuits(d, at, g)
	f.checkClasses(d, at)
	f.checkPrograms(d, at)
	if g != nil {
		f.checkNames(d, at, g)
	}
}

// fail points at the key of a fabric that package fabric complains of. A fault that a
// switch or a priority has from the whole fabric is that of the fabric's key.
func (f *Fabric) fail(d *tree.Document, at func(string) string, n *NIC, e *field.Error) {
	key := e.Key
	if key == "max_frame" {
		if ofNIC.Holds(n, "mtu") { // otherwise that is the fault
			d.Fail(at("nic.mtu"), "is %d, which makes frames of %v: choose less, so that they have at most 64KiB", n.MTU, e.Value)
		}
		return
	}
	if one, own, ok := cutItem(key, "switches."); ok {
		if path := at("fabric.switches." + one + "." + own); d.Given(path) {
			d.Fail(path, "%s", e.Fault())
			return
		}
		key = own
	}
	if priority, own, ok := cutItem(key, "classes["); ok {
		if i := f.classWith(priority, own); i >= 0 {
			whole := fmt.Sprintf("fabric.classes[%d]", i)
			failFields(d, &field.Error{Key: strings.TrimPrefix(own, "ecn."), Value: e.Value, Want: e.Want}, func(key string) string { return at(whole + "." + key) }, at(whole))
			return
		}
		key = own
	}
	d.Fail(at("fabric."+key), "%s", e.Fault())
}

// cutItem cuts "switches.tor0.buffer" into tor0 and buffer, or "classes[3].ecn.kmin" into
// 3 and ecn.kmin.
func cutItem(key, list string) (item, own string, ok bool) {
	rest, ok := strings.CutPrefix(key, list)
	if !ok {
		return "", "", false
	}
	end := "."
	if strings.HasSuffix(list, "[") {
		end = "]."
	}
	return strings.Cut(rest, end)
}

// checkNames refuses links and switches that the network does not have.
func (f *Fabric) checkNames(d *tree.Document, at func(string) string, g *fabric.Topology) {
	for i := range f.Failures {
		f.Failures[i].check(d, at, fmt.Sprintf("fabric.failures[%d]", i), g)
	}
	for i, x := range f.Faults {
		if x.Link == "*" {
			continue
		}
		if _, err := g.FindLink(x.Link); err != nil {
			d.Fail(at(fmt.Sprintf("fabric.faults[%d].link", i)), "%v", err)
		}
	}
	known := g.SwitchNames()
	for _, name := range slices.Sorted(maps.Keys(f.Switches)) {
		if !slices.Contains(known, name) {
			d.Fail(at("fabric.switches."+name), "there is no such switch: there are %s", few(known))
		}
	}
}

// checkNetwork holds a fabric that is right by itself against the network: every
// switch must have memory for the headroom of its ports.
func (sys *System) checkNetwork(d *tree.Document, at func(string) string, g *fabric.Topology) {
	if g == nil {
		return
	}
	err := fabric.Check(g, sys.FabricConfig())
	var size *fabric.BufferError
	switch {
	case err == nil:
	case errors.As(err, &size):
		key := "fabric.buffer"
		if one := "fabric.switches." + size.Switch + ".buffer"; d.Given(at(one)) {
			key = one
		}
		d.Fail(at(key), "is %v, and the headroom of the %d ports of switch %s takes %v: raise it, or lower pfc.headroom or the number of lossless priorities",
			size.Buffer, size.Ports, size.Switch, size.Headroom)
	default:
		failFields(d, err, func(key string) string { return at("fabric." + key) }, at("fabric"))
	}
}

// few lists names, leaving out the middle of many.
func few(names []string) string {
	if len(names) > 6 {
		names = append(append(slices.Clone(names[:3]), "..."), names[len(names)-1])
	}
	return strings.Join(names, ", ")
}

func (s *Scenario) checkExpectations(d *tree.Document) {
	labels := s.Labels()
	for i, e := range s.Expect {
		path := fmt.Sprintf("expect[%d]", i)
		if e.Metric == "" {
			d.Fail(path+".metric", "it is missing: name a figure of the JSON, such as throughput_gbps")
		}
		if e.Min == nil && e.Max == nil {
			d.Fail(path, "there is no limit: give min, max or both")
		}
		if e.System != "" && !slices.ContainsFunc(s.Systems, func(sys *System) bool { return sys.Name == e.System }) {
			d.Fail(path+".system", "there is no system %q: there are %s", e.System, systemNames(s.Systems))
		}
		if e.Link != "" && !slices.Contains(s.Measure.Links, e.Link) {
			d.Fail(path+".link", "%s is not measured: list it in measure.links", e.Link)
		}
		if e.Link != "" && e.Label != "" {
			d.Fail(path, "it names a label and a link: a figure belongs to one of them")
		}
		if e.Label != "" && labels != nil && !slices.Contains(labels, e.Label) {
			d.Fail(path+".label", "no flow has the label %q: there are %s", e.Label, strings.Join(labels, ", "))
		}
	}
}

func systemNames(systems []*System) string {
	var names []string
	for _, sys := range systems {
		names = append(names, sys.Name)
	}
	return strings.Join(names, ", ")
}

func engineNames() []string {
	var names []string
	for _, s := range cc.Schemes() {
		names = append(names, s.Name)
	}
	return names
}
