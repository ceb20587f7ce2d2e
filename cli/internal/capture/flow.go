package capture

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// A packet names the queue pair that it goes to, not the one it comes from. So
// what is followed is flows, each of the packets from one address to one queue
// pair; two flows become a connection when it shows that they are its two ways: by a CM
// exchange, by the DETH of datagrams, or by a response that fits a request.

// key names a flow. The source queue pair is known on datagrams only, and 0 else.
type key struct {
	src, dst      netip.Addr
	destQP, srcQP uint32
	datagram      bool
}

type flow struct {
	key       key
	conn      *connection
	peer      *flow
	dir       Direction
	requests  psnSet
	responses psnSet
	waiting   []request // for a response, oldest first
	reads     []readRange
	mtu       int // largest payload of a packet that is not a message's last, 0: none seen
}

// request waits for its response.
type request struct {
	psn   units.PSN
	time  units.Time
	clean bool // has a time and was sent once: gives a sample
}

// readRange is a READ whose count of response packets is not known yet.
type readRange struct {
	psn   units.PSN
	bytes uint32
}

// Bounds on what a flow remembers.
const (
	maxWaiting    = 1024
	maxReads      = 64
	maxCandidates = 64 // flows that a response is tried on
)

// connection is one or two flows; ab is that of who asked for it, or sent first.
type connection struct {
	at         int // in flows.conns
	service    ib.Opcode
	serviceSet bool
	ab, ba     *flow
	setUp      setUp
	firstFrame int // 0: none yet
}

// setUp is the CM exchange that made a connection.
type setUp struct {
	serviceID            uint64
	clientComm, servComm uint32
}

type hosts struct{ src, dst netip.Addr }

// commKey names a connection that is being set up, by the address and the
// communication ID of who asked for it.
type commKey struct {
	from, to netip.Addr
	id       uint32
}

type flows struct {
	byKey    map[key]*flow
	conns    []*connection     // nil where two became one
	unpaired map[hosts][]*flow // connected flows, oldest first
	asked    map[commKey]roce.REQ
}

func newFlows() flows {
	return flows{
		byKey: map[key]*flow{}, unpaired: map[hosts][]*flow{}, asked: map[commKey]roce.REQ{},
	}
}

func keyOf(p *packet) key {
	k := key{src: p.where.Src, dst: p.where.Dst, destQP: p.DestQP}
	if p.Opcode.Service() == ib.ServiceUD {
		k.datagram, k.srcQP = true, p.SrcQP
	}
	return k
}

// bad counts a packet whose ICRC is wrong, if there is such a flow: its fields
// are not to be trusted.
func (fs *flows) bad(p *packet) {
	if f := fs.byKey[keyOf(p)]; f != nil {
		f.dir.BadICRCs++
	}
}

// add takes a packet.
func (fs *flows) add(p *packet) {
	f := fs.flow(keyOf(p), p)
	d := &f.dir
	d.Packets++
	d.FrameBytes += p.frameBytes
	if p.where.ECN() == roce.ECNCE {
		d.ECNCEPackets++
	}
	if p.Opcode == ib.CNP {
		d.CNPs++
		return
	}
	if !f.conn.serviceSet {
		f.conn.service, f.conn.serviceSet = p.Opcode.Service(), true
	}
	d.PayloadBytes += int64(p.payloadBytes)
	switch p.Opcode.Service() {
	case ib.ServiceRC:
		if isResponse(p.Opcode) {
			fs.response(f, p)
		} else {
			f.request(p)
		}
	case ib.ServiceUD:
		d.Messages.count(p.Opcode)
		fs.datagram(f, p)
	default:
		d.Messages.count(p.Opcode)
	}
}

// flow returns the flow with a key, which begins with p if it is new.
func (fs *flows) flow(k key, p *packet) *flow {
	if f := fs.byKey[k]; f != nil {
		if f.conn.firstFrame == 0 { // set up by CM
			f.conn.firstFrame = p.frame
		}
		return f
	}
	f := fs.newFlow(k, &connection{firstFrame: p.frame})
	if k.datagram {
		if back := fs.byKey[key{src: k.dst, dst: k.src, destQP: k.srcQP, srcQP: k.destQP, datagram: true}]; back != nil && back != f {
			fs.join(f, back)
		}
		return f
	}
	h := hosts{k.src, k.dst}
	fs.unpaired[h] = append(fs.unpaired[h], f)
	return f
}

func (fs *flows) newFlow(k key, c *connection) *flow {
	f := &flow{key: k, conn: c}
	if c.ab == nil {
		c.ab, c.at = f, len(fs.conns)
		fs.conns = append(fs.conns, c)
	} else {
		c.ba = f
	}
	fs.byKey[k] = f
	return f
}

// join makes the two ways of one connection out of two flows. The older connection
// stays.
func (fs *flows) join(f, g *flow) {
	keep, drop := f, g
	if g.conn.at < f.conn.at {
		keep, drop = g, f
	}
	gone := drop.conn
	keep.conn.ba = drop
	if !keep.conn.serviceSet {
		keep.conn.service, keep.conn.serviceSet = gone.service, gone.serviceSet
	}
	drop.conn = keep.conn
	keep.peer, drop.peer = drop, keep
	fs.conns[gone.at] = nil
	fs.paired(f)
	fs.paired(g)
}

// paired takes a flow off the list of those without a peer.
func (fs *flows) paired(f *flow) {
	h := hosts{f.key.src, f.key.dst}
	list := fs.unpaired[h]
	for i := len(list) - 1; i >= 0; i-- { // most are found soon after they begin
		if list[i] == f {
			fs.unpaired[h] = append(list[:i], list[i+1:]...)
			return
		}
	}
}

// isResponse reports whether an RC opcode answers a request.
func isResponse(op ib.Opcode) bool { return op >= ib.ReadResponseFirst && op <= ib.AtomicAcknowledge }

// request takes a request of an RC flow.
func (f *flow) request(p *packet) {
	f.learnMTU(p)
	n := int64(1)
	if p.Opcode == ib.ReadRequest {
		n = f.readPackets(p)
	}
	again := f.sequence(f.requests.add(p.PSN, n), p)
	if again {
		for i := range f.waiting {
			if f.waiting[i].psn == p.PSN {
				f.waiting[i].clean = false
			}
		}
		return
	}
	f.dir.Messages.count(p.Opcode)
	if p.AckReq || p.Opcode == ib.ReadRequest || p.Opcode == ib.CompareSwap || p.Opcode == ib.FetchAdd {
		if len(f.waiting) == maxWaiting {
			f.waiting = append(f.waiting[:0], f.waiting[1:]...)
		}
		f.waiting = append(f.waiting, request{p.PSN, p.time, p.timed})
	}
}

// sequence counts a packet by what its PSN was, and reports whether it was sent
// before.
func (f *flow) sequence(at place, p *packet) bool {
	switch at {
	case placeAgain:
		f.dir.RetransmittedPackets++
		f.dir.RetransmittedBytes += int64(p.payloadBytes)
		return true
	case placeLate:
		f.dir.OutOfOrderPackets++
	case placeRestart:
		f.dir.PSNRestarts++
		f.waiting, f.reads = f.waiting[:0], f.reads[:0]
	}
	return false
}

// learnMTU takes the path MTU from a packet that is not its message's last.
func (f *flow) learnMTU(p *packet) {
	switch p.Opcode {
	case ib.SendFirst, ib.SendMiddle, ib.WriteFirst, ib.WriteMiddle, ib.ReadResponseFirst, ib.ReadResponseMiddle:
		if p.payloadBytes == 0 {
			return
		}
		f.mtu = p.payloadBytes
		if f.peer != nil {
			f.peer.mtu = p.payloadBytes
		}
	}
}

// readPackets returns how many PSNs a READ takes: one for each response packet (IBA
// 9.7.5.1.5). Until the MTU is known it is 1, and the READ is remembered.
func (f *flow) readPackets(p *packet) int64 {
	if p.DMALen > 256 && f.mtu == 0 {
		if len(f.reads) == maxReads {
			f.reads = append(f.reads[:0], f.reads[1:]...)
		}
		f.reads = append(f.reads, readRange{p.PSN, p.DMALen})
		return 1
	}
	return psnsOfRead(p.DMALen, f.mtu)
}

func psnsOfRead(bytes uint32, mtu int) int64 {
	if bytes == 0 || mtu == 0 {
		return 1
	}
	return (int64(bytes) + int64(mtu) - 1) / int64(mtu)
}

// response takes a response of an RC flow.
func (fs *flows) response(f *flow, p *packet) {
	if f.peer == nil {
		fs.pair(f, p.PSN)
	}
	f.learnMTU(p)
	if to := f.peer; to != nil && to.mtu != 0 {
		for _, r := range to.reads {
			to.requests.add(r.psn, psnsOfRead(r.bytes, to.mtu))
		}
		to.reads = to.reads[:0]
	}
	positive := true
	if p.Opcode == ib.Acknowledge {
		positive = f.dir.acknowledge(p.Syndrome)
	} else {
		f.sequence(f.responses.add(p.PSN, 1), p)
	}
	if f.peer != nil {
		f.peer.answered(p, positive)
	}
}

// acknowledge counts an ACK or NAK and reports which it is.
func (d *Direction) acknowledge(syndrome uint8) bool {
	const kind = 0xe0
	switch {
	case syndrome&kind == 0:
		d.Acks++
		return true
	case syndrome&kind == rc.SyndromeRNR:
		d.RNRNAKs++
	case syndrome == rc.SyndromeSequence:
		d.NAKs.Sequence++
	case syndrome == rc.SyndromeInvalid:
		d.NAKs.Invalid++
	case syndrome == rc.SyndromeAccess:
		d.NAKs.Access++
	case syndrome == rc.SyndromeOperation:
		d.NAKs.Operation++
	default:
		d.NAKs.Other++
	}
	return false
}

// answered takes the requests off that a response answers: all up to its PSN, and
// for a NAK those before it. The one with that PSN gives a sample.
func (f *flow) answered(p *packet, positive bool) {
	n := 0
	for n < len(f.waiting) && f.waiting[n].psn.Before(p.PSN) {
		n++
	}
	if positive && n < len(f.waiting) && f.waiting[n].psn == p.PSN {
		if w := f.waiting[n]; w.clean && p.timed && p.time >= w.time {
			if f.dir.RTT == nil {
				f.dir.RTT = new(RTT)
			}
			f.dir.RTT.add(p.time - w.time)
		}
		n++
	}
	f.waiting = append(f.waiting[:0], f.waiting[n:]...)
}

// pair looks for the one flow the other way that waits for a response with a PSN.
func (fs *flows) pair(f *flow, psn units.PSN) {
	var found *flow
	list := fs.unpaired[hosts{f.key.dst, f.key.src}]
	for _, g := range list[max(0, len(list)-maxCandidates):] {
		if g == f || g.key.datagram {
			continue
		}
		for _, w := range g.waiting {
			if w.psn != psn {
				continue
			}
			if found != nil {
				return // two would fit
			}
			found = g
			break
		}
	}
	if found != nil {
		fs.join(f, found)
	}
}

// datagram looks into datagrams between general services interfaces.
func (fs *flows) datagram(f *flow, p *packet) {
	if !p.IsGSI() {
		return
	}
	m, err := roce.ParseMAD(p.payload)
	if err != nil {
		return
	}
	if f.dir.CM == nil {
		f.dir.CM = map[string]int64{}
	}
	f.dir.CM[m.Attribute().String()]++
	from, to := p.where.Src, p.where.Dst
	switch m.Attribute() {
	case roce.AttrREQ:
		var req roce.REQ
		if req.Decode(m) == nil {
			req.Private = nil // it is the frame's memory
			fs.asked[commKey{from, to, req.LocalCommID}] = req
		}
	case roce.AttrREP:
		var rep roce.REP
		if rep.Decode(m) != nil {
			return
		}
		ask := commKey{to, from, rep.RemoteCommID}
		if req, ok := fs.asked[ask]; ok {
			delete(fs.asked, ask)
			fs.setUp(&req, &rep, to, from)
		}
	}
}

// setUp notes a connection that a REQ from client and a REP from server set up.
// Flows with the same keys belong to an older connection, unless the two are
// repeats.
func (fs *flows) setUp(req *roce.REQ, rep *roce.REP, client, server netip.Addr) {
	to := key{src: client, dst: server, destQP: rep.LocalQPN}
	by := setUp{req.ServiceID, req.LocalCommID, rep.LocalCommID}
	if old := fs.byKey[to]; old != nil && old.conn.setUp == by {
		return
	}
	c := &connection{setUp: by}
	switch req.TransportType {
	case roce.TransportRC:
		c.service, c.serviceSet = ib.ServiceRC, true
	case roce.TransportUC:
		c.service, c.serviceSet = ib.ServiceUC, true
	}
	there := fs.newFlow(to, c)
	back := fs.newFlow(key{src: server, dst: client, destQP: req.LocalQPN}, c)
	there.peer, back.peer = back, there
	if mtu := roce.MTUOf(req.PathMTU); mtu != 0 {
		there.mtu, back.mtu = int(mtu), int(mtu)
	}
}

// count counts a message whose last packet, or request, has opcode op.
func (m *Messages) count(op ib.Opcode) {
	switch op.Operation() {
	case ib.SendLast, ib.SendOnly:
		m.Send++
	case ib.SendLastImm, ib.SendOnlyImm:
		m.SendImm++
	case ib.SendLastInv, ib.SendOnlyInv:
		m.SendInv++
	case ib.WriteLast, ib.WriteOnly:
		m.Write++
	case ib.WriteLastImm, ib.WriteOnlyImm:
		m.WriteImm++
	case ib.ReadRequest:
		m.Read++
	case ib.CompareSwap:
		m.CompareSwap++
	case ib.FetchAdd:
		m.FetchAdd++
	}
}

// connections joins the flows to connections, in the order of their first
// packets. Connections that were set up but not used are left out.
func (fs *flows) connections() []*Connection {
	out := []*Connection{}
	for _, c := range fs.conns {
		if c == nil || c.firstFrame == 0 {
			continue
		}
		out = append(out, c.report())
	}
	slices.SortStableFunc(out, func(a, b *Connection) int { return cmp.Compare(a.FirstFrame, b.FirstFrame) })
	return out
}

func (c *connection) report() *Connection {
	r := &Connection{
		Service: "CNP", FirstFrame: c.firstFrame,
		A: Endpoint{IP: c.ab.key.src}, B: Endpoint{IP: c.ab.key.dst, QP: &c.ab.key.destQP},
		AToB: c.ab.dir,
	}
	if c.setUp != (setUp{}) {
		r.ServiceID = fmt.Sprintf("0x%016x", c.setUp.serviceID)
	}
	if c.serviceSet {
		r.Service = map[ib.Opcode]string{ib.ServiceRC: "RC", ib.ServiceUC: "UC", ib.ServiceUD: "UD"}[c.service]
	}
	switch {
	case c.ab.key.datagram:
		r.A.QP = &c.ab.key.srcQP
	case c.ba != nil:
		r.A.QP = &c.ba.key.destQP
	}
	if c.ba != nil {
		r.BToA = c.ba.dir
	}
	return r
}
