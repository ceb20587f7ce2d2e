package doctor

import (
	"net"

	"github.com/sluice-rdma/sluice/internal/tchook"
)

// abandoned describes the filters on an interface that a killed process of Sluice's has
// left. It needs root to see any.
func abandoned(netdev string) []string {
	i, err := net.InterfaceByName(netdev)
	if err != nil {
		return nil
	}
	left, err := tchook.Abandoned(i.Index)
	if err != nil {
		return nil
	}
	return left
}
