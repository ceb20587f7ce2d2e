package bench

// Miss is an expectation of a scenario that its result did not meet.
type Miss struct {
	System string `json:"system"`
	Label  string `json:"label,omitempty"`
	Metric string `json:"metric"` // as in the JSON: "throughput_gbps"
	Value  Float  `json:"value"`
	Min    Float  `json:"min"` // null: no limit
	Max    Float  `json:"max"`
}
