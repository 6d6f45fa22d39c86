// Package inventory counts what lies in the warehouse.
package inventory

import (
	"errors"
	"sync"
)

// ReorderPoint is the stock below which a supplier is asked for more.
const ReorderPoint = 24

// reorderBatch is how many pieces are asked for at once.
const reorderBatch = 144

// ErrShort says that there is less in stock than was asked for.
var ErrShort = errors.New("inventory: short")

// Shelf is one place of the warehouse.
type Shelf struct {
	Aisle  string
	Bay    int
	Stock  map[string]int
	frozen bool
}

// Warehouse holds all shelves. It is safe for concurrent use.
type Warehouse struct {
	mu      sync.RWMutex
	shelves []*Shelf
	holds   map[string]int
}

// Reserve puts pieces aside for an order. A hold that nobody pays for ends after 20 minutes.
func (w *Warehouse) Reserve(sku string, pieces int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.available(sku) < pieces {
		return ErrShort
	}
	w.holds[sku] += pieces
	return nil
}

// available counts what is on shelves that are not frozen, less what is held.
func (w *Warehouse) available(sku string) int {
	count := 0
	for _, shelf := range w.shelves {
		if !shelf.frozen {
			count += shelf.Stock[sku]
		}
	}
	return count - w.holds[sku]
}

// NeedsReorder says whether, and how many pieces, to ask a supplier for.
func (w *Warehouse) NeedsReorder(sku string) (int, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.available(sku) >= ReorderPoint {
		return 0, false
	}
	return reorderBatch, true
}

// CycleCount corrects the stock of a shelf; differences above five percent freeze it for a recount.
func (s *Shelf) CycleCount(sku string, counted int) {
	known := s.Stock[sku]
	if diff := counted - known; diff*20 > known || -diff*20 > known {
		s.frozen = true
		return
	}
	s.Stock[sku] = counted
}
