package main

import (
	"context"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// mutexes holds mutexes of etcd, each under a session of its own.
type mutexes struct {
	client *clientv3.Client
	ttl    int

	mutex  sync.Mutex
	unlock map[string]context.CancelFunc
}

func newMutexes(endpoint string, ttl int) (*mutexes, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return &mutexes{client: client, ttl: ttl, unlock: map[string]context.CancelFunc{}}, nil
}

func (m *mutexes) acquire(prefix string, count int) error {
	ctx := context.Background()
	session, err := concurrency.NewSession(m.client, concurrency.WithTTL(m.ttl))
	if err != nil {
		return err
	}
	defer session.Close()
	for index := range count {
		name := fmt.Sprintf("%s-%d", prefix, index)
		started := now()
		lock := concurrency.NewMutex(session, "/peers/"+name)
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		acquired(name, started)
		if err := lock.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *mutexes) hold(name string) {
	released, unlock := context.WithCancel(context.Background())
	m.mutex.Lock()
	m.unlock[name] = unlock
	m.mutex.Unlock()
	go func() {
		if err := m.keep(released, name); err != nil {
			failed(name, err)
		}
	}()
}

func (m *mutexes) keep(released context.Context, name string) error {
	ctx := context.Background()
	session, err := concurrency.NewSession(m.client, concurrency.WithTTL(m.ttl))
	if err != nil {
		return err
	}
	defer session.Close()
	// A second listener to the keep-alives that the session sends: it sends none of its own.
	answers, err := m.client.KeepAlive(ctx, session.Lease())
	if err != nil {
		return err
	}
	go func() {
		for range answers {
			happened("renewed", name)
		}
	}()
	lock := concurrency.NewMutex(session, "/peers/"+name)
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	happened("held", name)
	select {
	case <-session.Done():
		happened("stopped", name)
		return nil
	case <-released.Done():
		return lock.Unlock(ctx)
	}
}

func (m *mutexes) release(name string) {
	m.mutex.Lock()
	unlock := m.unlock[name]
	m.mutex.Unlock()
	happened("releasing", name)
	unlock()
}

// renew asks as the keep-alives of a session do, on one stream, and waits for each answer before it asks again: many at
// once would be cheaper for each.
func (m *mutexes) renew(count int, begin func()) error {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	lease, err := m.client.Grant(ctx, int64(m.ttl))
	if err != nil {
		return err
	}
	stream, err := etcdserverpb.NewLeaseClient(m.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	begin()
	for range count {
		if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(lease.ID)}); err != nil {
			return err
		}
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		if answer.TTL <= 0 {
			return fmt.Errorf("lease %x has expired", lease.ID)
		}
	}
	return nil
}
