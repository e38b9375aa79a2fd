<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeEncrypted;

final class EncryptedScripted extends Scripted implements ShouldBeEncrypted
{
}
