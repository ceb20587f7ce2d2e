package pcie

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// Purpose is the use of a PCIe transfer. Every byte on the link has one.
type Purpose uint8

// Purposes.
const (
	ForDoorbell Purpose = iota
	ForWQE
	ForRecvWQE
	ForRecvDoorbell // reads of receive queues' doorbell records
	ForPayload      // reads: data to send; writes: data received
	ForCQE
	ForClock
	ForAtomic
	ForEvent       // armings, event queue elements, interrupts
	ForContext     // queue pairs' contexts, read and written back
	ForTranslation // memory keys' and pages' entries
	NumPurposes
)

var purposeNames = [NumPurposes]string{"doorbell", "wqe", "recv_wqe", "recv_doorbell", "payload", "cqe", "clock", "atomic", "event", "context", "translation"}

func (p Purpose) String() string { return purposeNames[p] }

// TLPType is a kind of transaction layer packet.
type TLPType uint8

// TLP types that the model has.
const (
	MemRd TLPType = iota // memory read request: non-posted
	MemWr                // memory write: posted
	CplD                 // completion with data
	NumTLPTypes
)

var tlpNames = [NumTLPTypes]string{"MRd", "MWr", "CplD"}

func (t TLPType) String() string { return tlpNames[t] }

// Direction is one of the link's two.
type Direction uint8

// Directions.
const (
	Upstream   Direction = iota // NIC to host
	Downstream                  // host to NIC
	NumDirections
)

// Headers is whose count of the bytes around a TLP's payload is taken: header,
// sequence number, checks and framing.
type Headers uint8

// Sets of headers.
const (
	// PCIeBench has 24 bytes around a request and 20 around a completion, with
	// 64-bit addresses (Neugebauer et al., SIGCOMM 2018, its model). It goes with a
	// rate from which the data link layer's packets are taken off.
	PCIeBench Headers = iota
	// Kalia has 26 and 22 (Kalia et al., ATC 2016, figure 2a), with the rate of the
	// lanes after coding.
	Kalia
	// Flit has 16 and 12, the header alone, with 64-bit addresses: sequence number, CRC and framing are the flit's
	// (PCI Express Base Specification 6.0, as recalled). It goes with a rate such as gen6x16's. A
	// TLP has arrived when the last of its flits has, and errors are corrected (FEC).
	Flit
)

// A flit of 256 bytes has 236 for TLPs.
const (
	flitBytes = 256
	flitTLPs  = 236
)

// Request is the bytes around the payload of a request.
func (h Headers) Request() int {
	switch h {
	case Kalia:
		return 26
	case Flit:
		return 16
	}
	return 24
}

// Completion is the bytes around the payload of a completion.
func (h Headers) Completion() int {
	switch h {
	case Kalia:
		return 22
	case Flit:
		return 12
	}
	return 20
}

// Config describes the link between the NIC and the host's memory, and the
// DMA engine at the NIC's end. Zero in an optional field takes the limit or the
// cost away.
type Config struct {
	// Rate is that of each direction, for whole TLPs. A scenario may give the link
	// instead, such as gen3x8, for what its lanes carry after line coding.
	Rate units.Rate `yaml:"rate" range:"[1Mbps,100Tbps]"`
	// MPS is the largest payload of one TLP, bytes.
	MPS int `yaml:"mps" range:"[16,4096]"`
	// MRRS is the largest read request, bytes.
	MRRS int `yaml:"mrrs" range:"[16,4096]"`
	// RCB is the read completion boundary, bytes: completions but the last end at a
	// multiple of it.
	RCB int `yaml:"rcb" range:"[1,4096]"`
	// ReadCompletion is the largest payload with which the root complex answers reads, bytes, from
	// RCB up; 0 is MPS. It is C_rc of Kalia et al. (ATC 2016, section 2.1).
	ReadCompletion int `yaml:"read_completion" range:"[16,4096]" zero:"MPS"`
	// Headers is whose count of the bytes around a TLP's payload is taken: pcie-bench
	// (24 for a request, 20 for a completion), kalia (26 and 22) or, of a link of the sixth generation, flit (16 and 12).
	Headers Headers `yaml:"headers" eg:"flit" one:"pcie-bench kalia flit"`
	// FEC is what the correction of errors takes at the end of each direction, with headers flit.
	FEC units.Time `yaml:"fec" eg:"2ns" range:"[0,100ms]"`
	// ReadLatency is from the last bit of a read request at the NIC to the first bit
	// of its data back at the NIC, on an idle link.
	ReadLatency units.Time `yaml:"read_latency" range:"[0,100ms]"`
	// WriteLatency is from the NIC to the data being visible to the host's processors,
	// or from a processor's store to the NIC.
	WriteLatency units.Time `yaml:"write_latency" range:"[0,100ms]"`

	// Tags is the largest number of outstanding read requests: 32 of 5 bits, 256 with extended
	// tags, 768 with tags of 10 bits (PCIe 2.2.6.2). 0 is no limit.
	Tags int `yaml:"tags" range:"[1,2^16]" zero:"no limit"`
	// NonPostedCredits is how many read requests the root complex has room for until it has translated
	// and handed on the first (its non-posted header credits, PCIe 2.6.1; reads have no data); 0 is no limit.
	NonPostedCredits int `yaml:"nonposted_credits" range:"[1,2^16]" zero:"no limit"`
	// NonPostedHold is how long it takes for that, beside the translation.
	NonPostedHold units.Time `yaml:"nonposted_hold" range:"[0,100ms]"`
	// RelaxedOrdering says that payload is written with that attribute (PCIe 2.2.6.4): such a write may pass earlier ones that
	// wait in the root complex, for a page walk or for memory. Completions and events are written without it, and pass none.
	RelaxedOrdering bool `yaml:"relaxed_ordering" eg:"true"`
	// PostedCredits is the number of write TLPs that the root complex takes in before it has
	// worked off the first (its posted header credits); 0 is no limit. The NIC takes completions and stores
	// without limit, as the specification asks of an endpoint for completions.
	PostedCredits int `yaml:"posted_credits" range:"[1,2^16]" zero:"no limit"`
	// PostedData is how many bytes of writes it takes in so, in credits of 16 bytes; 0 is no limit.
	PostedData int `yaml:"posted_data" range:"[16,2^30]" zero:"no limit"`
	// PostedHold is how long the root complex takes for a write, where PostedCredits or
	// PostedData limits them.
	PostedHold units.Time `yaml:"posted_hold" range:"[0,100ms]"`
	// PushLatency is from a write's arrival at the host to when a read behind it can be
	// answered: reads push writes before them.
	PushLatency units.Time `yaml:"push_latency" range:"[0,100ms]"`
	// SocketLatency is added to both latencies, for memory at another socket. What the
	// HostCache of the NIC's own socket holds is not fetched from there.
	SocketLatency units.Time `yaml:"socket_latency" range:"[0,100ms]"`
	// HostCache is that of the host's processors, as far as data that the NIC reads and
	// writes are in it or not.
	HostCache HostCacheConfig `yaml:"host_cache"`
	// Memory is that of the NIC's socket.
	Memory MemoryConfig `yaml:"memory"`
	// Peer is another device whose memory the NIC reads and writes.
	Peer PeerConfig `yaml:"peer"`
	// IOMMU is the translation of the NIC's addresses.
	IOMMU IOMMUConfig `yaml:"iommu"`

	// ReadIssue is what the DMA engine is occupied for by one read, however long.
	ReadIssue units.Time `yaml:"read_issue" range:"[0,100ms]"`
	// WriteIssue is what the DMA engine is occupied for by one write, however long.
	WriteIssue units.Time `yaml:"write_issue" range:"[0,100ms]"`
	// ReadSetup is what the DMA engine takes for a read before its first TLP leaves;
	// others are under way meanwhile.
	ReadSetup units.Time `yaml:"read_setup" range:"[0,100ms]"`
	// WriteSetup is what it takes for a write before that.
	WriteSetup units.Time `yaml:"write_setup" range:"[0,100ms]"`
	// StagingRate is that of the copies inside the device from where completions
	// arrive to where they are used, and of a write's data to where they leave, for
	// a device that makes them of whole transfers; 0 is none.
	StagingRate units.Rate `yaml:"staging_rate" range:"[1Mbps,100Tbps]" zero:"no copy"`
}

// TLPs counts packets and their bytes on the link.
type TLPs struct {
	Packets uint64
	Bytes   units.Bytes // headers included
}

// pcieStalls sums the transfers' waits for anything but the link, over all of
// them. A wait for tags or credits counts for what holds them longest: the
// root complex, page walks, or memory.
type pcieStalls struct {
	Tags, TagsMemory, Translation units.Time
	NonPosted                     units.Time // for non-posted credits
	Peer                          units.Time // reads, for the peer device's data
	Credits                       [numHolders]units.Time
}

// Link is the link's two directions, each a resource that is used in order, and the
// DMA engine. The times of calls must not decrease. A transfer that waits for
// something other than the link does not delay the link, which others use
// meanwhile. So a transfer takes its room on the link at the time of the call.
//
// It is not safe for concurrent use and does not allocate.
type Link struct {
	cfg     Config
	sides   [NumDirections]pcieSide
	tags    stage.Inflight
	taken   stage.Inflight // non-posted credits
	longest units.Time     // of the data of a longest read request on the link
	flit    units.Time     // how long one is, or 0
	credits postedCredits
	mmu     *iommu
	memory  *dram
	peer    peerLink
	cache   *hostCache
	stalls  pcieStalls

	readIssue, writeIssue units.Time // when the engine can take the next
	staged                units.Time // when the copy of what was read is free
	leaving               units.Time // when the copy of what is written is free
	visible               units.Time // of the newest write: they are seen in order
	pushed                units.Time // from when on a read leaves that does not wait for it
}

// pcieSide is a direction of the link.
type pcieSide struct {
	name    string
	until   units.Time // when it is free next
	since   units.Time // from when on it is busy until then, without a gap
	busy    units.Time
	traffic [NumTLPTypes][NumPurposes]TLPs
	watch   func(begin, end units.Time, why stage.Stall)
}

func (s *pcieSide) SetWatch(f func(begin, end units.Time, why stage.Stall)) {
	s.watch = f
	if f != nil && s.until > s.since {
		f(s.since, s.until, stage.StallNone) // taken in before, and perhaps not over
	}
}

// New returns an idle link.
func New(c Config) (*Link, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	memory := newDRAM(c.Memory)
	flit := units.Time(0)
	if c.Headers == Flit {
		flit = c.Rate.Serialize(flitTLPs)
	}
	return &Link{flit: flit, cfg: c, memory: memory, sides: [NumDirections]pcieSide{{name: "pcie_up"}, {name: "pcie_down"}}, tags: stage.NewInflight(c.Tags), taken: stage.NewInflight(c.NonPostedCredits), longest: c.Rate.Serialize(units.Bytes(c.MRRS)), credits: newPostedCredits(&c), mmu: newIOMMU(c.IOMMU, memory), cache: newHostCache(c.HostCache)}, nil
}

// Train has the link carry so much from now on, as one whose width or speed has changed. What has taken its room
// keeps it, and limits and latencies stay.
func (p *Link) Train(r units.Rate) {
	p.cfg.Rate, p.longest = r, r.Serialize(units.Bytes(p.cfg.MRRS))
	if p.flit > 0 {
		p.flit = r.Serialize(flitTLPs)
	}
}

// occupy takes room for a number of TLPs with n bytes of payload in all.
func (p *Link) occupy(d Direction, from units.Time, kind TLPType, packets, n int, why Purpose) (end units.Time) {
	header := p.cfg.Headers.Request()
	if kind == CplD {
		header = p.cfg.Headers.Completion()
	}
	size := units.Bytes(n + packets*header)
	s := &p.sides[d]
	c := &s.traffic[kind][why]
	c.Packets += uint64(packets)
	c.Bytes += size
	took := p.cfg.Rate.Serialize(size)
	s.busy += took
	if from > s.until {
		s.since, s.until = from, from
	}
	s.until += took
	if s.watch != nil {
		s.watch(s.until-took, s.until, stage.StallNone)
	}
	if p.flit > 0 { // they follow each other without end, empty or not
		return (s.until+p.flit-1)/p.flit*p.flit + p.cfg.FEC
	}
	return s.until
}

// pieces returns how many pieces of at most limit bytes carry n bytes.
func pieces(n, limit int) int { return max(1, (n+limit-1)/limit) }

// writes returns how many write TLPs carry n bytes to an address.
func (c *Config) writes(addr uint64, n int) int { return cut(addr, n, c.MPS) }

const boundary = 4096

func cut(addr uint64, n, limit int) int {
	first := boundary - int(addr%boundary)
	if n <= first {
		return pieces(n, limit)
	}
	n -= first
	k := pieces(first, limit) + n/boundary*pieces(boundary, limit)
	if rest := n % boundary; rest > 0 {
		k += pieces(rest, limit)
	}
	return k
}

// completions returns how many completions answer one request for n bytes from an
// address on: each is as long as MPS and ReadCompletion allow and, except the last, ends at a
// multiple of RCB (PCIe 2.3.1.1).
func (c *Config) completions(addr uint64, n int) int {
	most := c.MPS
	if c.ReadCompletion > 0 {
		most = min(most, c.ReadCompletion)
	}
	first := most - int(addr+uint64(most))%c.RCB
	if n <= first {
		return 1
	}
	return 1 + pieces(n-first, most-most%c.RCB)
}

// next returns the length of the first request for n bytes from an address on. None
// is longer than MRRS or crosses a 4 KiB boundary (PCIe 2.2.7).
func (c *Config) next(addr uint64, n int) int {
	return min(n, c.MRRS, boundary-int(addr%boundary))
}

// Read fetches n bytes of host memory, requested at t, and returns when the last
// byte has arrived.
func (p *Link) Read(t units.Time, addr uint64, n int, why Purpose) (done units.Time) {
	return p.ReadMemory(t, addr, n, why, false)
}

// ReadMemory is Read, or reads the peer's memory.
func (p *Link) ReadMemory(t units.Time, addr uint64, n int, why Purpose, peer bool) (done units.Time) {
	if p.cfg.ReadIssue > 0 {
		t = max(t, p.readIssue)
		p.readIssue = t + p.cfg.ReadIssue
	}
	answers, requests, from := 0, 0, addr
	for left := n; ; {
		size := p.cfg.next(from, left)
		answers += p.cfg.completions(from, size)
		requests++
		from += uint64(size)
		if left -= size; left <= 0 {
			break
		}
	}
	requested := p.occupy(Upstream, t, MemRd, requests, 0, why)
	// The latency is not the link's: other TLPs go meanwhile.
	latency, fromMemory, mmu := p.cfg.Peer.ReadLatency, 0, p.mmu
	if !peer {
		latency, fromMemory = p.cfg.ReadLatency+p.distance(addr, n, why), p.fromMemory(addr, n, why)
	} else if !p.cfg.Peer.ThroughIOMMU {
		mmu = nil
	}
	done = p.occupy(Downstream, requested, CplD, answers, n, why) + latency
	if peer {
		given := p.peerReads(requested, n, answers) + latency
		p.stalls.Peer += max(0, given-done)
		done = max(done, given)
	}
	pushed := p.pushed
	if peer {
		pushed = p.credits.left // the ones that left go elsewhere
	}
	push := max(0, pushed-requested-p.cfg.ReadSetup)
	if mmu == nil && push == 0 && fromMemory == 0 && p.tags.Idle(t, requests) && (!p.taken.Bounded() || p.taken.Idle(t, requests)) {
		p.holdTags(done, addr, n, requests)
		for range requests {
			p.taken.Hold(requested + p.cfg.NonPostedHold)
		}
	} else if p.tags.Bounded() || p.taken.Bounded() || mmu != nil || fromMemory > 0 {
		idle := latency + p.cfg.Rate.Serialize(units.Bytes(requests*p.cfg.Headers.Request())) +
			p.cfg.Rate.Serialize(units.Bytes(n+answers*p.cfg.Headers.Completion())) + 2*(p.flit+p.cfg.FEC)
		done = p.held(t, push, done, idle, addr, n, mmu, fromMemory > 0)
	} else {
		done += push
	}
	done += p.cfg.ReadSetup
	if p.cfg.StagingRate > 0 {
		p.staged = max(p.staged, done) + p.cfg.StagingRate.Serialize(units.Bytes(n))
		done = p.staged
	}
	return done
}

// Alone returns the least time of a read of n bytes: on an idle link, from the host's
// cache, and without a wait for tags or translation.
func (p *Link) Alone(n int) units.Time {
	c := &p.cfg
	t := c.ReadSetup + c.ReadLatency + 2*c.FEC + c.Rate.Serialize(units.Bytes(c.Headers.Request())) +
		c.Rate.Serialize(units.Bytes(n+c.completions(0, n)*c.Headers.Completion()))
	if p.cache == nil {
		t += c.SocketLatency
	}
	return t
}

// holdTags has the requests of a read that waits for nothing but the link hold their tags
// until their data are there.
func (p *Link) holdTags(done units.Time, addr uint64, n, requests int) {
	for ; requests > 1; requests-- {
		size := p.cfg.next(addr, n)
		addr += uint64(size)
		n -= size
		after := p.longest
		if n != p.cfg.MRRS {
			after = p.cfg.Rate.Serialize(units.Bytes(n))
		}
		p.tags.Hold(done - after)
	}
	p.tags.Hold(done)
}

// held returns when a read is done that would be at done if its requests did not wait
// for tags, translations, memory and for the writes before it, at most push. It takes idle on an idle link:
// what waits for a tag waits for the link meanwhile.
func (p *Link) held(t, push, done, idle units.Time, addr uint64, n int, mmu *iommu, fromMemory bool) units.Time {
	last := done + push
	for {
		size := p.cfg.next(addr, n)
		tagged := p.tags.Free(t)
		issued := p.taken.Free(tagged)
		p.stalls.NonPosted += issued - tagged
		ready := issued
		if mmu != nil {
			ready = mmu.translate(issued, addr, size)
			p.stalls.Translation += ready - issued
		}
		ready = max(ready, t+push)
		p.taken.Hold(ready + p.cfg.NonPostedHold)
		waits := &p.stalls.Tags
		if fromMemory {
			given := p.memory.serve(ready, size)
			ready += given
			if given > idle {
				waits = &p.stalls.TagsMemory
			}
		}
		*waits += tagged - t
		n -= size
		// The request's data come before those of the requests after it.
		end := max(done, ready+idle) - p.cfg.Rate.Serialize(units.Bytes(n))
		p.tags.Hold(end)
		last = max(last, end)
		addr += uint64(size)
		if n <= 0 {
			return last
		}
	}
}

// Write stores n bytes in host memory from t on. It returns when the NIC has
// handed the last byte to the link and when the host sees it. Writes are seen in
// the order of the calls (PCIe 2.4.1: posted requests do not pass each other), but for relaxed ones.
func (p *Link) Write(t units.Time, addr uint64, n int, why Purpose) (sent, visible units.Time) {
	return p.WriteMemory(t, addr, n, why, false)
}

// WriteMemory is Write, or writes the peer's memory.
func (p *Link) WriteMemory(t units.Time, addr uint64, n int, why Purpose, peer bool) (sent, visible units.Time) {
	if p.cfg.WriteIssue > 0 {
		t = max(t, p.writeIssue)
		p.writeIssue = t + p.cfg.WriteIssue
	}
	packets := p.cfg.writes(addr, n)
	from := max(t, p.sides[Upstream].until)
	carried := p.occupy(Upstream, t, MemWr, packets, n, why)
	sent = carried + p.cfg.WriteSetup
	if p.cfg.StagingRate > 0 {
		p.leaving = max(p.leaving, t) + p.cfg.StagingRate.Serialize(units.Bytes(n))
		sent += p.leaving - t
	}
	var walk, far units.Time
	relaxed := p.cfg.RelaxedOrdering && why == ForPayload
	toMemory, mmu, latency := 0, p.mmu, p.cfg.WriteLatency
	if !peer {
		far, toMemory = p.taking(addr, n)
	} else if latency = p.cfg.Peer.WriteLatency; !p.cfg.Peer.ThroughIOMMU {
		mmu = nil
	}
	if mmu != nil {
		at := sent
		if p.credits.bounded() {
			at = max(at, p.credits.next(t)+(carried-from)/units.Time(packets)+sent-carried)
		}
		if relaxed {
			walk = mmu.translateRelaxed(at, addr, n) - at
		} else {
			walk = mmu.translate(at, addr, n) - at
		}
		p.stalls.Translation += walk
	}
	if p.credits.bounded() {
		sent, walk = p.credited(t, sent, carried-from, sent-carried, walk, packets, n, toMemory, peer, relaxed)
	} else if peer {
		walk += p.peerTakes(sent+walk, n, packets)
	}
	at := sent + walk + far
	p.visible = max(p.visible, at+latency)
	p.pushed = max(p.pushed, at+p.cfg.PushLatency)
	if relaxed {
		return sent, at + latency
	}
	return sent, p.visible
}

// credited returns when a write has left that without credits would have left at sent, and not
// before those before it, and how long the last of it is behind that until memory has it. A TLP that waits for its credits waits for the link meanwhile, and then takes its
// share of what all of them take on the link, and what the NIC takes beside. A write that is not translated
// yet, or that memory has not taken, keeps its credits.
func (p *Link) credited(t, sent, link, beside, walk units.Time, packets, n, toMemory int, peer, relaxed bool) (end, behind units.Time) {
	c := &p.credits
	c.returned(t)
	if data := dataCredits(n); c.fit(t, packets, data) && c.left <= sent {
		return sent, p.holdCredits(sent, walk, toMemory, packets, data, n, peer, relaxed)
	}
	end = max(sent, c.left)
	alone, each := link/units.Time(packets)+beside, toMemory/packets
	for left := n; packets > 0; packets-- {
		part := min(left, p.cfg.MPS)
		data := min(dataCredits(part), c.most.data)
		left -= part
		end = max(end, c.free(t, 1, data)+alone)
		behind = p.holdCredits(end, walk, each, 1, data, part, peer, relaxed)
	}
	c.left = end
	p.stalls.Credits[c.waited] += end - sent
	return end, behind
}

// holdCredits has TLPs with n bytes that have left hold their credits until they are translated and memory or the peer and the root
// complex have taken them. It returns how long the first two take.
func (p *Link) holdCredits(left, walk units.Time, toMemory, packets, data, n int, peer, relaxed bool) (behind units.Time) {
	var drain units.Time
	drained := byMemory
	if peer {
		drain, drained = p.peerTakes(left+walk, n, packets), byPeer
	} else if p.memory != nil && toMemory > 0 {
		drain = p.memory.serve(left+walk, toMemory)
	}
	by := byHost
	if most := max(walk, drain); most > p.cfg.PostedHold {
		if by = byWalk; drain > walk {
			by = drained
		}
	}
	p.credits.hold(left+walk+drain+p.cfg.PostedHold, by, packets, data, relaxed)
	return walk + drain
}

// Left returns when the host sees a write that was given its room before and has left
// the NIC at t only.
func (p *Link) Left(t units.Time) units.Time {
	t += p.cfg.WriteLatency
	if p.cache == nil {
		t += p.cfg.SocketLatency
	}
	p.visible = max(p.visible, t)
	return p.visible
}

// Store is a store of n bytes by a processor into the NIC's registers, in TLPs of
// at most one cache line. It returns when the last is there.
func (p *Link) Store(t units.Time, n int, why Purpose) units.Time {
	return p.occupy(Downstream, t, MemWr, pieces(n, CacheLine), n, why) + p.cfg.WriteLatency
}

// CacheLine is the size of a write-combining buffer, in bytes; work queue elements are
// multiples of it.
const CacheLine = 64

// Free returns when a direction has carried what was handed to it.
func (p *Link) Free(d Direction) units.Time { return p.sides[d].until }

// Traffic returns what crossed the link in a direction, by type and purpose.
func (p *Link) Traffic(d Direction, kind TLPType, why Purpose) TLPs {
	return p.sides[d].traffic[kind][why]
}

// Account breaks down a direction's picoseconds. Work may be scheduled far ahead;
// it counts as it is done, as long as there is no gap in it.
func (s *pcieSide) Account(now units.Time) stage.Account {
	elapsed := max(now, s.since)
	busy := s.busy - max(s.until-elapsed, 0)
	a := stage.Account{Stage: s.name, Clock: stage.Picoseconds, Parallel: 1, Elapsed: int64(elapsed), Busy: int64(busy), Idle: int64(elapsed - busy)}
	for kind := range NumTLPTypes {
		for why := range NumPurposes {
			a.Served += s.traffic[kind][why].Packets
		}
	}
	return a
}

// WriteTakes returns the time of a write of n bytes on an idle link, until the host sees
// it.
func (c *Config) WriteTakes(n int) units.Time {
	return c.Rate.Serialize(units.Bytes(n+pieces(n, c.MPS)*c.Headers.Request())) + c.WriteLatency
}
