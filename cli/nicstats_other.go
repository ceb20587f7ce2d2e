//go:build !linux

package cli

import "errors"

// nicStats fails: ethtool is Linux'.
func nicStats() (stats func(netdev string) (map[string]uint64, error), end func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
