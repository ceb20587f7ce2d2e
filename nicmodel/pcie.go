package nicmodel

import "github.com/sluice-rdma/sluice/units"

// Purpose is what a PCIe transfer was for. Every byte on the link has one.
type Purpose uint8

// Purposes.
const (
	ForDoorbell Purpose = iota
	ForWQE
	ForPayload // reads: data to send; writes: data received
	ForCQE
	ForClock
	numPurposes
)

var purposeNames = [numPurposes]string{"doorbell", "wqe", "payload", "cqe", "clock"}

func (p Purpose) String() string { return purposeNames[p] }

// PCIeConfig describes the link between the NIC and the host's memory.
type PCIeConfig struct {
	Rate units.Rate // of each direction, after line coding and link-layer overhead
	MPS  int        // largest payload of one TLP, bytes
	MRRS int        // largest read request, bytes
	// Bytes of header, framing and check around a memory request and around a
	// completion with data. Kalia et al. (ATC 2016, table 1) give 26 and 22,
	// pcie-bench (SIGCOMM 2018) 24 and 20 for 64-bit addresses.
	RequestHeader, CompletionHeader int
	// ReadLatency is from the last bit of a read request at the NIC to the first bit
	// of its data back at the NIC, on an idle link. WriteLatency is
	// from the NIC to the data being visible to the host's processors, or from
	// a processor's store to the NIC.
	ReadLatency, WriteLatency units.Time
}

// pcie is the link's two directions, each a resource that is used in order.
type pcie struct {
	PCIeConfig
	up, down units.Time // when each direction is free next
	bytes    [2][numPurposes]units.Bytes
}

const (
	upstream   = 0 // NIC to host
	downstream = 1
)

func (p *pcie) occupy(direction int, from units.Time, n int, why Purpose) (end units.Time) {
	free := &p.up
	if direction == downstream {
		free = &p.down
	}
	p.bytes[direction][why] += units.Bytes(n)
	*free = max(*free, from) + p.Rate.Serialize(units.Bytes(n))
	return *free
}

// tlps returns how many TLPs of at most limit bytes of payload carry n bytes.
func tlps(n, limit int) int { return max(1, (n+limit-1)/limit) }

// read fetches n bytes of host memory, asked for at t, and returns when the last
// byte has arrived.
func (p *pcie) read(t units.Time, n int, why Purpose) units.Time {
	asked := p.occupy(upstream, t, tlps(n, p.MRRS)*p.RequestHeader, why)
	// The latency is not the link's: other TLPs go meanwhile.
	return p.occupy(downstream, asked, n+tlps(n, p.MPS)*p.CompletionHeader, why) + p.ReadLatency
}

// write stores n bytes in host memory from t on. It returns when the NIC has
// handed the last byte to the link and when the host sees it.
func (p *pcie) write(t units.Time, n int, why Purpose) (sent, visible units.Time) {
	sent = p.occupy(upstream, t, n+tlps(n, p.MPS)*p.RequestHeader, why)
	return sent, sent + p.WriteLatency
}

// mmio is a store of n bytes by a processor into the NIC's registers.
func (p *pcie) mmio(t units.Time, n int, why Purpose) units.Time {
	return p.occupy(downstream, t, n+tlps(n, 64)*p.RequestHeader, why) + p.WriteLatency
}
