package virtual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Model is an adapter's description as programs read it before they use it.
type Model struct {
	name     string // as in nicmodel's presets
	partID   uint32 // PCI device, vendor_part_id
	fwVer    uint64 // major, minor and sub-minor in 16 bits each
	boardID  string
	clockHz  int64 // of the free-running counter (hca_core_clock)
	lineRate units.Rate

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
		name: "cx5", partID: 0x1017, fwVer: 16<<32 | 27<<16 | 1016, boardID: "MT_0000000080", clockHz: 156_250_000, lineRate: 100 * units.Gbps,
		maxQP: 262144, maxQPWR: 32768, maxSGE: 30, maxCQ: 16777216, maxCQE: 4194303, maxMR: 16777216, maxPD: 16777216,
		maxSRQ: 8388608, maxSRQWR: 32767, maxRdAtom: 16, maxResRdAtom: 4194304,
	},
	{
		name: "cx6dx", partID: 0x101d, fwVer: 22<<32 | 35<<16 | 2000, boardID: "MT_0000000359", clockHz: 1_000_000_000, lineRate: 100 * units.Gbps,
		maxQP: 262144, maxQPWR: 32768, maxSGE: 30, maxCQ: 16777216, maxCQE: 4194303, maxMR: 16777216, maxPD: 8388608,
		maxSRQ: 8388608, maxSRQWR: 32767, maxRdAtom: 16, maxResRdAtom: 4194304,
	},
	{
		name: "cx7", partID: 0x1021, fwVer: 28<<32 | 42<<16 | 1000, boardID: "MT_0000000838", clockHz: 1_000_000_000, lineRate: 200 * units.Gbps,
		maxQP: 262144, maxQPWR: 32768, maxSGE: 30, maxCQ: 16777216, maxCQE: 4194303, maxMR: 16777216, maxPD: 8388608,
		maxSRQ: 8388608, maxSRQWR: 32767, maxRdAtom: 16, maxResRdAtom: 4194304,
	},
}

// Models lists the names of the models.
func Models() []string {
	var names []string
	for _, m := range models {
		names = append(names, m.name)
	}
	return names
}

// ModelOf returns the model of that name.
func ModelOf(name string) (Model, error) {
	i := slices.IndexFunc(models, func(m Model) bool { return m.name == name })
	if i < 0 {
		return Model{}, fmt.Errorf("unknown NIC %q, expected one of %s", name, strings.Join(Models(), ", "))
	}
	return models[i], nil
}

// firmware is the firmware's version as sysfs and ibv_devinfo print it.
func (m Model) firmware() string {
	return fmt.Sprintf("%d.%d.%04d", m.fwVer>>32&0xffff, m.fwVer>>16&0xffff, m.fwVer&0xffff)
}
