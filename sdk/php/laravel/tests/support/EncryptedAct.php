<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeEncrypted;

final class EncryptedAct extends Act implements ShouldBeEncrypted
{
}
