package cli

import "github.com/safchain/ethtool"

// nicStats returns a reader of an interface's ethtool statistics.
func nicStats() (stats func(netdev string) (map[string]uint64, error), end func(), err error) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return nil, nil, err
	}
	return e.Stats, e.Close, nil
}
