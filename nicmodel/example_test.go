package nicmodel_test

import (
	"fmt"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// A preset with sections of one's own: another host's memory, a second traffic class, and bounded queues.
func ExampleConfig() {
	c, err := nicmodel.Preset("cx6dx")
	if err != nil {
		fmt.Println(err)
		return
	}
	c.PCIe.Memory = nicmodel.MemoryConfig{Rate: 600 * units.Gbps, Load: 100 * units.Gbps, Outstanding: 256}
	c.Queues = nicmodel.QueuesConfig{Doorbells: 64, Acks: 256, Completions: 256}
	c.Egress = nicmodel.EgressConfig{
		PrioTC: []int{0, 0, 0, 1},
		TSA:    []string{nicmodel.TSAETS, nicmodel.TSAETS},
		TCBW:   []int{20, 80},
	}
	fmt.Println(c.Validate())

	c.Egress.TCBW = []int{20, 90}
	fmt.Println(c.Validate())
	// Output:
	// <nil>
	// nic: egress.tcbw is 110: choose shares of the classes of ets that add up to 100
}
