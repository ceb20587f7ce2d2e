package virtual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Model is an adapter's description as programs read it before they use it.
type Model struct {
	Name     string // as in nicmodel's presets
	PartID   uint32 // PCI device, vendor_part_id
	FWVer    uint64 // major, minor and sub-minor in 16 bits each
	BoardID  string
	ClockHz  int64 // of the free-running counter (hca_core_clock)
	LineRate units.Rate

	maxQP, maxQPWR, maxSGE, maxCQ, maxCQE, maxMR, maxPD, maxSRQ, maxSRQWR int
	maxRdAtom, maxResRdAtom                                               int
}

// models are what `ibv_devinfo -v` printed of such adapters, in public:
//
//   - ConnectX-5: openucx/ucx issue 9830 (firmware 16.27.1016) and open-mpi/ompi pull
//     request 6137 for the limits;
//   - ConnectX-7: deepseek-ai/DeepEP issue 38 (firmware 28.42.1000, board MT_0000000838),
//     whose limits are not printed there: they are ConnectX-5's;
//   - ConnectX-6 Dx: part number from rdma-core's table of devices; the board, the firmware and the limits
//     are assumptions, those of its siblings.
//
// Clock rates are nicmodel's, those of the drivers.
var models = []Model{
	{
		Name: "cx5", PartID: 0x1017, FWVer: 16<<32 | 27<<16 | 1016, BoardID: "MT_0000000080", ClockHz: 156_250_000, LineRate: 100 * units.Gbps,
		maxQP: 262144, maxQPWR: 32768, maxSGE: 30, maxCQ: 16777216, maxCQE: 4194303, maxMR: 16777216, maxPD: 16777216,
		maxSRQ: 8388608, maxSRQWR: 32767, maxRdAtom: 16, maxResRdAtom: 4194304,
	},
	{
		Name: "cx6dx", PartID: 0x101d, FWVer: 22<<32 | 35<<16 | 2000, BoardID: "MT_0000000359", ClockHz: 1_000_000_000, LineRate: 100 * units.Gbps,
		maxQP: 262144, maxQPWR: 32768, maxSGE: 30, maxCQ: 16777216, maxCQE: 4194303, maxMR: 16777216, maxPD: 8388608,
		maxSRQ: 8388608, maxSRQWR: 32767, maxRdAtom: 16, maxResRdAtom: 4194304,
	},
	{
		Name: "cx7", PartID: 0x1021, FWVer: 28<<32 | 42<<16 | 1000, BoardID: "MT_0000000838", ClockHz: 1_000_000_000, LineRate: 200 * units.Gbps,
		maxQP: 262144, maxQPWR: 32768, maxSGE: 30, maxCQ: 16777216, maxCQE: 4194303, maxMR: 16777216, maxPD: 8388608,
		maxSRQ: 8388608, maxSRQWR: 32767, maxRdAtom: 16, maxResRdAtom: 4194304,
	},
}

// Models lists the names of the models.
func Models() []string {
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}
	return names
}

// ModelOf returns the model of that name.
func ModelOf(name string) (Model, error) {
	i := slices.IndexFunc(models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{}, fmt.Errorf("unknown NIC %q, expected one of %s", name, strings.Join(Models(), ", "))
	}
	return models[i], nil
}

// Firmware is the firmware's version as sysfs and ibv_devinfo print it.
func (m Model) Firmware() string {
	return fmt.Sprintf("%d.%d.%04d", m.FWVer>>32&0xffff, m.FWVer>>16&0xffff, m.FWVer&0xffff)
}
