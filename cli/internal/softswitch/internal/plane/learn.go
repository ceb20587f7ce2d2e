package plane

import "github.com/sluice-rdma/sluice/units"

const macBytes = 6

// mac is an Ethernet address, the first byte being the uppermost of 48 bits.
type mac uint64

func macOf(b []byte) mac {
	_ = b[macBytes-1]
	return mac(b[0])<<40 | mac(b[1])<<32 | mac(b[2])<<24 | mac(b[3])<<16 | mac(b[4])<<8 | mac(b[5])
}

// group reports whether it stands for many stations (IEEE 802: the first byte's lowest bit).
func (m mac) group() bool { return m>>40&1 != 0 }

// reserved reports whether no bridge forwards frames to this address: pause frames,
// spanning tree, LLDP and the like (IEEE 802.1D, table 7-10).
func (m mac) reserved() bool { return m&^0xf == 0x0180c2000000 }

const (
	tableBuckets = 1 << 10
	bucketWays   = 4
	// entryLife is the time after which a learnt address expires: IEEE 802.1D's
	// recommended ageing time.
	entryLife = 300 * units.Second
)

// macTable says behind which port an address is: of one bucket's addresses beyond
// four, the one that was heard last the longest ago gives way.
type macTable struct {
	buckets [tableBuckets][bucketWays]macEntry
}

type macEntry struct {
	addr  mac
	port  uint16
	known bool
	heard units.Time
}

func (t *macTable) bucket(m mac) *[bucketWays]macEntry {
	const golden = 0x9e3779b97f4a7c15 // Fibonacci hashing, Knuth volume 3, section 6.4
	return &t.buckets[uint64(m)*golden>>(64-10)]
}

func (t *macTable) learn(now units.Time, m mac, port uint16) {
	if m.group() {
		return // no station's
	}
	b := t.bucket(m)
	at := &b[0]
	for i := range b {
		e := &b[i]
		if e.known && e.addr == m {
			at = e
			break
		}
		if at.known && (!e.known || e.heard < at.heard) {
			at = e
		}
	}
	*at = macEntry{addr: m, port: port, known: true, heard: now}
}

func (t *macTable) find(now units.Time, m mac) (port uint16, ok bool) {
	b := t.bucket(m)
	for i := range b {
		if e := &b[i]; e.known && e.addr == m && now-e.heard < entryLife {
			return e.port, true
		}
	}
	return 0, false
}
