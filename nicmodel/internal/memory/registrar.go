package memory

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
)

// Registrar is memory as the host registers it with the NIC: its methods are the NIC's.
type Registrar struct {
	pds         uint32
	config      *config.Config
	regions     *Regions
	translation *Translation
	landings    *Landings
}

// AllocPD returns the number of a new protection domain.
func (m *Registrar) AllocPD() uint32 {
	m.pds++
	return m.pds
}

// Region is a registered memory region.
type Region struct {
	Addr   uint64
	Length uint64
	Key    uint32 // both L_Key and R_Key
}

// RegMR registers buf; or, if buf is nil, a phantom of length bytes: memory that
// has bounds and keys but no content, for workloads that never read their bytes.
func (m *Registrar) RegMR(pd uint32, buf []byte, length uint64, access ib.AccessFlags) (Region, error) {
	if buf != nil {
		length = uint64(len(buf))
	}
	if err := checkAccess(access); err != nil {
		return Region{}, err
	}
	r, err := m.regions.register(buf, length, access, pd)
	return m.entered(r, err)
}

// RegMemory registers length bytes of m from addr on. The region's addresses begin at
// iova, which is as far into a page. What m refuses to read, or to write where it can't be
// read, fails the request that names it. What m refuses to write otherwise is lost: a
// completion may have been under way before it.
func (m *Registrar) RegMemory(pd uint32, from Memory, addr, length, iova uint64, access ib.AccessFlags) (Region, error) {
	switch {
	case from == nil:
		return Region{}, errors.New("no memory given")
	case length > math.MaxInt64 || addr+length < addr || iova+length < iova:
		return Region{}, fmt.Errorf("%d bytes from %#x on, or from iova %#x on, pass the end of the address space", length, addr, iova)
	case (addr^iova)%regionAlign != 0:
		return Region{}, fmt.Errorf("address %#x and iova %#x differ in their offset within a page", addr, iova)
	}
	if err := checkAccess(access); err != nil {
		return Region{}, err
	}
	r, err := m.regions.add(Extent{base: iova, length: length, Access: access, PD: pd, Other: from, start: addr})
	return m.entered(r, err)
}

// NewRegistrar registers memory in regions.
func NewRegistrar(c *config.Config, regions *Regions, translation *Translation, landings *Landings) Registrar {
	return Registrar{config: c, regions: regions, translation: translation, landings: landings}
}

func checkAccess(access ib.AccessFlags) error {
	if access&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) != 0 && access&ib.AccessLocalWrite == 0 {
		return fmt.Errorf("access %v needs LOCAL_WRITE too (ibv_reg_mr)", access)
	}
	return nil
}

// entered gives a new region its translations.
func (m *Registrar) entered(r Extent, err error) (Region, error) {
	if err == nil {
		m.translation.enter(r.Key, m.config.Translation.PageOf(r.Access))
	}
	return Region{Addr: r.base, Length: r.length, Key: r.Key}, err
}

// RegPeer is RegMR for memory of the peer device (pcie.Config.Peer), such as a GPU's. It fails if there is none.
func (m *Registrar) RegPeer(pd uint32, buf []byte, length uint64, access ib.AccessFlags) (Region, error) {
	if m.config.PCIe.Peer.Rate == 0 {
		return Region{}, fmt.Errorf("the NIC has no peer device: give pcie.peer.rate")
	}
	r, err := m.RegMR(pd, buf, length, access)
	if err == nil {
		m.regions.Find(r.Key).peer = true
		m.regions.peers++
	}
	return r, err
}

// DeregMR makes a region's key invalid and reports whether there was one. What was on
// its way there is in memory when it returns.
func (m *Registrar) DeregMR(key uint32) bool {
	m.landings.settle(key)
	return m.translation.Forget(key)
}

// AllocMW makes a memory window that is bound to nothing, and returns its key.
func (m *Registrar) AllocMW(pd uint32, t ib.MWType) (key uint32, err error) {
	return m.regions.allocWindow(pd, t)
}

// DeallocMW ends a window, of which key is any key.
func (m *Registrar) DeallocMW(key uint32) { m.regions.deallocWindow(key) }

// WindowKey returns the key that a window has now, of which key is any.
func (m *Registrar) WindowKey(key uint32) uint32 { return m.regions.windowKey(key) }

// Windows counts the windows that are bound to a region.
func (m *Registrar) Windows(region uint32) int { return m.regions.windowsOf(region) }
