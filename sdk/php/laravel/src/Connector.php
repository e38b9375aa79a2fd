<?php

namespace Stoker\Laravel;

use Illuminate\Contracts\Queue\Queue;
use Illuminate\Queue\Connectors\ConnectorInterface;

final class Connector implements ConnectorInterface
{
    public function connect(array $config): Queue
    {
        return new StokerQueue(
            $config['queue'] ?? 'default',
            $config['socket'] ?? null,
            $config['timeout'] ?? 10,
            $config['after_commit'] ?? false,
        );
    }
}
